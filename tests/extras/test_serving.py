"""``tightgp serve`` as a process: a second client, limits, kills, and a load."""

import concurrent.futures
import json
import os
import signal
import socket
import subprocess
import sys
import time

import numpy as np
import pandas as pd
import pytest

import tightgp as tgp

pytest.importorskip("fastapi")
pytest.importorskip("uvicorn")
pytest.importorskip("prometheus_client")
httpx = pytest.importorskip("httpx")

RNG = np.random.default_rng(0)
FRAME = pd.DataFrame({"x": RNG.normal(size=60), "city": RNG.choice(["Oslo", "Rome"], 60)})
Y = np.sin(FRAME["x"]) + (FRAME["city"] == "Oslo") + 0.1 * RNG.normal(size=60)
ROWS = FRAME.to_dict("records")


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    path = tmp_path_factory.mktemp("served") / "model.safetensors"
    estimator = tgp.SparseGPRegressor(max_iter=3).fit(FRAME, Y)
    tgp.save(estimator, path)
    return path, estimator.predict(FRAME)


class Service:
    """The service in a process of its own."""

    def __init__(self, path, port, *options):
        self.url = f"http://127.0.0.1:{port}"
        command = [sys.executable, "-m", "tightgp", "serve", path, "--port", port, *options]
        self.process = subprocess.Popen([str(part) for part in command], stderr=subprocess.PIPE, text=True)
        for _ in range(3000):
            try:
                httpx.get(f"{self.url}/health").raise_for_status()
                return
            except httpx.TransportError:
                assert self.process.poll() is None, self.process.stderr.read()
                time.sleep(0.1)
        raise AssertionError("the service did not start")

    def ask(self, body):
        return httpx.post(
            f"{self.url}/predict", content=body if isinstance(body, bytes) else json.dumps(body), timeout=60
        )

    def end(self, how=signal.SIGTERM):
        self.process.send_signal(how)
        code = self.process.wait(120)
        self.process.stderr.close()
        return code


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


@pytest.fixture(scope="module")
def service(model):
    made = Service(model[0], free_port(), "--max-rows", 60, "--max-body", 0.01)
    yield made
    made.end()


def test_another_client_gets_the_estimator_s_numbers(service, model):
    answer = service.ask({"rows": ROWS}).json()
    np.testing.assert_allclose([one["mean"] for one in answer["predictions"]], model[1], rtol=1e-12)
    schema = httpx.get(f"{service.url}/schema").json()
    assert [column["name"] for column in schema["columns"]] == ["x", "city"]
    assert httpx.get(f"{service.url}/health").json()["status"] == "ok"


def test_limits_and_errors_are_answers_of_one_line(service):
    for body, status, said in (
        ({"rows": ROWS * 2}, 413, "at most 60"),
        (b" " * 20_000, 413, "more than 0.01 MB"),
        (b"{", 422, "not JSON"),
        ({"rows": [{"x": 1.0}]}, 422, "lacks the column 'city'"),
    ):
        answer = service.ask(body)
        assert answer.status_code == status
        assert said in answer.json()["error"]
        assert "\n" not in answer.json()["error"]
    streamed = httpx.post(f"{service.url}/predict", content=(b" " * 1000 for _ in range(20)), timeout=240)
    assert streamed.status_code == 413
    text = httpx.get(f"{service.url}/metrics").text
    assert 'tightgp_requests_total{status="413"}' in text
    assert "tightgp_request_seconds_bucket" in text


def test_only_this_machine_is_let_in_by_default(service):
    assert "127.0.0.1" in service.url
    port = int(service.url.rsplit(":", 1)[1])
    others = {info[4][0] for info in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)} - {"127.0.0.1"}
    for address in others:
        with socket.socket() as one:
            one.settimeout(2)
            assert one.connect_ex((address, port)) != 0 or address.startswith("127.")


def test_requests_in_progress_are_answered_before_it_stops(model):
    service = Service(model[0], free_port())
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        waiting = [pool.submit(service.ask, {"rows": ROWS}) for _ in range(8)]
        while "tightgp_requests_in_progress 0.0" in httpx.get(f"{service.url}/metrics").text:
            pass
        assert service.end() in (0, -signal.SIGTERM)
        outcomes = []
        for one in waiting:
            try:
                outcomes.append(one.result().status_code)
            except httpx.TransportError:
                outcomes.append(None)  # not accepted any more
    assert outcomes.count(200) >= 1
    assert set(outcomes) <= {200, None}


def test_nothing_is_lost_when_it_is_killed_and_restarted(model):
    """Clients that ask again get every answer, and every answer is right."""
    path, mean = model
    port = free_port()
    service = Service(path, port)
    url = f"{service.url}/predict"

    def insist(i):
        for _ in range(3000):
            try:
                answer = httpx.post(url, json={"rows": [ROWS[i]]}, timeout=240)
            except httpx.TransportError:
                time.sleep(0.1)
                continue
            if answer.status_code == 200:
                return answer.json()["predictions"][0]["mean"]
        raise AssertionError("no answer")

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        waiting = [pool.submit(insist, i % 60) for i in range(120)]
        while sum(one.done() for one in waiting) < 10:
            time.sleep(0.01)
        service.end(signal.SIGKILL)
        service = Service(path, port)
        got = [one.result() for one in waiting]
    service.end()
    np.testing.assert_allclose(got, [mean[i % 60] for i in range(120)], rtol=1e-12)


def test_a_port_in_use_is_an_error_of_one_line(service, model):
    port = service.url.rsplit(":", 1)[1]
    command = [sys.executable, "-m", "tightgp", "serve", str(model[0]), "--port", port]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode != 0
    assert "Traceback" not in done.stderr


@pytest.mark.skipif(not os.environ.get("TIGHTGP_LOAD"), reason="a load test: set TIGHTGP_LOAD=1")
def test_load(service):
    seconds, clients = 10, 4
    until = time.perf_counter() + seconds

    def ask_on():
        times = []
        with httpx.Client() as client:
            while time.perf_counter() < until:
                start = time.perf_counter()
                assert client.post(f"{service.url}/predict", json={"rows": ROWS[:1]}).status_code == 200
                times.append(time.perf_counter() - start)
        return times

    with concurrent.futures.ThreadPoolExecutor(clients) as pool:
        times = np.concatenate([one.result() for one in [pool.submit(ask_on) for _ in range(clients)]])
    p50, p99 = 1e3 * np.quantile(times, [0.5, 0.99])
    print(f"{len(times) / seconds:.0f} requests/s, p50 {p50:.1f} ms, p99 {p99:.1f} ms")
    assert len(times) > 10 * seconds
