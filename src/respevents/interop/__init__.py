"""One small module for each optional library; import the one you need, it imports its library."""
