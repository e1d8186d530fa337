"""What the suite measures, a file for each library: each imports its own library and none of the others."""
