"""The application: command line, reports, tables. It uses the library; nothing in the library uses it."""
