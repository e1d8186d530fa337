"""Tables in files: read into a pandas DataFrame, checked, and written back. Every failure is a `TableError`."""

from tightgp.tables.errors import TableError
from tightgp.tables.reading import read_table
from tightgp.tables.targets import check_target, row_number, target_column
from tightgp.tables.writing import check_writable, write_table

__all__ = ["TableError", "check_target", "check_writable", "read_table", "row_number", "target_column", "write_table"]
