"""The documentation site: what builds it from docs/, the docstrings and the program itself (`make docs`)."""
