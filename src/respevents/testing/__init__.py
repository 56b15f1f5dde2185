"""Property tests over events and frames (extra `respevents[testing]`)."""
