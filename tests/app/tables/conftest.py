import pytest


@pytest.fixture
def file(tmp_path):
    """Write a file of this content, and give its path."""

    def write(content, name="table.csv"):
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write
