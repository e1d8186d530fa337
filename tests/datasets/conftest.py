"""Tests use an empty cache, no TIGHTGP_DATA, and for downloads a local server."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tightgp.datasets import DatasetError, download
from tightgp.datasets.formats import read


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """An empty cache, and no TIGHTGP_DATA."""
    monkeypatch.delenv("TIGHTGP_DATA", raising=False)
    folder = tmp_path / "cache"
    monkeypatch.setattr(download, "cache_folder", lambda: folder)
    return folder


@pytest.fixture
def data_folder(tmp_path, monkeypatch):
    """The folder that TIGHTGP_DATA names."""
    folder = tmp_path / "data"
    (folder / "uci").mkdir(parents=True)
    monkeypatch.setenv("TIGHTGP_DATA", str(folder))
    return folder


class Server:
    """An HTTP server of ``files``. ``requests`` lists the paths requested; ``lengths`` overrides Content-Length."""

    def __init__(self):
        self.files: dict[str, bytes] = {}
        self.lengths: dict[str, int] = {}
        self.requests: list[str] = []
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                server.requests.append(self.path)
                body = server.files.get(self.path)
                self.send_response(404 if body is None else 200)
                self.send_header("Content-Length", str(server.lengths.get(self.path, len(body or b""))))
                self.end_headers()
                self.wfile.write(body or b"")

            def log_message(self, *_):
                pass

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.01,))
        self._thread.start()

    def address(self, path: str) -> str:
        return f"http://127.0.0.1:{self._http.server_port}{path}"

    def close(self):
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    server = Server()
    yield server
    server.close()


def assert_refused(source, path, words):
    """Reading raises an error of one line that names the file."""
    with pytest.raises(DatasetError, match=words) as caught:
        read(source, path)
    message = str(caught.value)
    assert "\n" not in message
    assert message.startswith(f"{path} cannot be read as {source.name}: ")
