"""The measurements of the suite: a file for each library, which imports no other library."""
