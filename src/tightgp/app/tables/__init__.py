"""Tables in files: read into a pandas DataFrame, checked, and written back. Every failure is a `TableError`."""

from tightgp.app.tables.errors import TableError
from tightgp.app.tables.findings import Choices, Finding
from tightgp.app.tables.inspecting import Inspection, inspect_table
from tightgp.app.tables.reading import read_table
from tightgp.app.tables.rows import row_number
from tightgp.app.tables.target import check_target, find_column
from tightgp.app.tables.writing import check_writable, write_table

__all__ = [
    "Choices",
    "Finding",
    "Inspection",
    "TableError",
    "check_target",
    "check_writable",
    "find_column",
    "inspect_table",
    "read_table",
    "row_number",
    "write_table",
]
