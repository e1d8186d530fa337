"""Parquet files as tables."""

from pathlib import Path

import numpy as np

from tightgp.tables.columns import frame_of, unique
from tightgp.tables.errors import TableError, reason, shown
from tightgp.tables.shares import WHOLE, Share

_BATCH = 1 << 20


def read_parquet(path: Path, share: Share = WHOLE):
    """The frame of a Parquet file with one value a cell; an index that pandas wrote is a column.

    Of a share those groups of rows are read in which it has some.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    # A share is a part of the file, so that its bytes are read where they are.
    source = pa.BufferReader(path.read_bytes()) if share.count == 1 else pa.OSFile(str(path))
    try:
        with pq.ParquetFile(source) as file:
            names = ["unnamed" if name == "__index_level_0__" else name for name in file.schema_arrow.names]
            unique(path, names)
            for name, field in zip(names, file.schema_arrow, strict=True):
                if pa.types.is_nested(field.type):
                    said = "holds lists or records; use one value a cell, or drop it"
                    raise TableError(path, f"column {shown(name)} {said}")
            # Batch by batch, for all at once would ask for memory for as many rows as a broken file claims.
            here = share.of(file.metadata.num_rows)
            groups, skipped, claimed = _overlapping(file.metadata, here)
            batches = file.iter_batches(batch_size=_BATCH, row_groups=groups)
            table = pa.Table.from_batches(batches, file.schema_arrow)
            if table.num_rows != claimed:
                raise ValueError(f"it holds {table.num_rows} rows where it claims {claimed}")
            table = table.slice(here.start - skipped, here.stop - here.start)
            frame = frame_of(table.rename_columns(names))
    except (MemoryError, TableError):
        raise
    # Which errors a broken file can cause is not said anywhere.
    except Exception as error:
        raise TableError(path, f"cannot be read as Parquet, perhaps cut off: {reason(error)}") from None
    frame.attrs["header"] = True
    return share.marked(frame, here)


def _overlapping(metadata, here: slice) -> tuple[list[int], int, int]:
    """The groups with some of these rows, the rows before them, and the rows in them."""
    ends = np.cumsum([metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)], dtype=int)
    if (held := int(ends[-1]) if len(ends) else 0) != metadata.num_rows:
        raise ValueError(f"it holds {held} rows where it claims {metadata.num_rows}")
    starts = np.concatenate([[0], ends[:-1]])
    inside = np.flatnonzero((starts < here.stop) & (ends > here.start))
    if not len(inside):
        return [], here.start, 0
    return inside.tolist(), int(starts[inside[0]]), int(ends[inside[-1]] - starts[inside[0]])
