"""Parquet files as tables."""

from pathlib import Path

from tightgp.tables.columns import frame_of, unique
from tightgp.tables.errors import TableError, reason, shown

_BATCH = 1 << 20


def read_parquet(path: Path):
    """The frame of a Parquet file with one value a cell; an index that pandas wrote is a column."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    data = path.read_bytes()
    try:
        with pq.ParquetFile(pa.BufferReader(data)) as file:
            names = ["unnamed" if name == "__index_level_0__" else name for name in file.schema_arrow.names]
            unique(path, names)
            for name, field in zip(names, file.schema_arrow, strict=True):
                if pa.types.is_nested(field.type):
                    said = "holds lists or records; use one value a cell, or drop it"
                    raise TableError(path, f"column {shown(name)} {said}")
            # Batch by batch, for all at once would ask for memory for as many rows as a broken file claims.
            table = pa.Table.from_batches(file.iter_batches(batch_size=_BATCH), file.schema_arrow)
            if table.num_rows != file.metadata.num_rows:
                raise ValueError(f"it holds {table.num_rows} rows where it claims {file.metadata.num_rows}")
            frame = frame_of(table.rename_columns(names))
    except (MemoryError, TableError):
        raise
    # Which errors a broken file can cause is not said anywhere.
    except Exception as error:
        raise TableError(path, f"cannot be read as Parquet, perhaps cut off: {reason(error)}") from None
    frame.attrs["header"] = True
    return frame
