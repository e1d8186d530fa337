"""Parquet files as tables."""

from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa

from tightgp.app.tables.columns import check_names, to_pandas
from tightgp.app.tables.errors import TableError, quoted, refuse_broken
from tightgp.app.tables.limits import UNPACKED_GB, check_cells, check_unpacked
from tightgp.app.tables.rows import share_of

_BATCH_ROWS = 1 << 20


def read_parquet(path: Path, share: tuple[int, int], max_unpacked: float = UNPACKED_GB) -> pd.DataFrame:
    """The frame of a Parquet file with one value a cell; an index that pandas wrote is a column.

    Of a share only the row groups that hold some of its rows are read.
    """
    import pyarrow.parquet as pq

    source = pa.BufferReader(path.read_bytes()) if share == (0, 1) else pa.OSFile(str(path))
    with refuse_broken(path, "cannot be read as Parquet, perhaps cut off"), pq.ParquetFile(source) as file:
        names = ["unnamed" if name == "__index_level_0__" else name for name in file.schema_arrow.names]
        check_names(path, names)
        for name, field in zip(names, file.schema_arrow, strict=True):
            if pa.types.is_nested(field.type):
                problem = "holds lists or records; use one value a cell, or drop the column"
                raise TableError(path, f"column {quoted(name)} {problem}")
        in_file = [file.metadata.row_group(i) for i in range(file.metadata.num_row_groups)]
        sizes = [group.num_rows for group in in_file]
        ends = np.cumsum([0, *sizes])
        _check_count(int(ends[-1]), file.metadata.num_rows)
        rows = share_of(file.metadata.num_rows, share)
        numbers = 8 * int(ends[-1]) * len(names)  # a column of one repeated value takes no room in the file
        check_unpacked(path, max(numbers, sum(group.total_byte_size for group in in_file)), max_unpacked)
        groups = np.flatnonzero((ends[:-1] < rows.stop) & (ends[1:] > rows.start)).tolist()
        # Batch by batch: a broken file can claim more rows than there is memory for.
        batches = file.iter_batches(batch_size=_BATCH_ROWS, row_groups=groups)
        table = pa.Table.from_batches(batches, file.schema_arrow)
        _check_count(table.num_rows, sum(sizes[i] for i in groups))
        skipped = int(ends[groups[0]]) if groups else rows.start
        table = table.slice(rows.start - skipped, rows.stop - rows.start)
        check_cells(path, table)
        frame = to_pandas(table.rename_columns(names))
    frame.attrs.update(header=True, first=rows.start)
    return frame


def _check_count(found: int, claimed: int) -> None:
    if found != claimed:
        raise ValueError(f"it holds {found} rows where it claims {claimed}")
