"""Generated from the schema set; never edited by hand."""
