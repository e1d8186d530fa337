"""The HTTP service: paths, limits, metrics. `Answering` does the work.

FastAPI and the client of Prometheus are an extra, so they are imported where they are used.
"""

import time
from typing import Any

from tightgp import __version__
from tightgp.app.cli.failures import describe, is_out_of_memory
from tightgp.app.serving.answering import Answering, TooMuchError


class TooLongError(ValueError):
    """A request of more bytes than are read."""


class Metrics:
    """What Prometheus is told."""

    def __init__(self):
        from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

        self.registry = CollectorRegistry()
        given = {"registry": self.registry}
        self.requests = Counter("tightgp_requests", "Requests for predictions, by status.", ["status"], **given)
        self.rows = Counter("tightgp_rows", "Rows predicted.", **given)
        self.seconds = Histogram("tightgp_request_seconds", "Seconds from a request to its answer.", **given)
        self.waiting = Gauge("tightgp_requests_in_progress", "Requests that are being answered or wait.", **given)


def make_app(answering: Answering, max_bytes: int, max_waiting: int) -> Any:
    """The service of one model.

    Args:
        answering: what answers.
        max_bytes: most bytes of a request's body.
        max_waiting: most requests at a time; others are refused with status 503.
    """
    import anyio
    from fastapi import FastAPI, Request
    from fastapi.responses import JSONResponse, PlainTextResponse
    from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

    app = FastAPI(title="tightgp", version=__version__, docs_url=None, redoc_url=None, openapi_url=None)
    metrics = Metrics()
    schema = answering.schema()

    @app.get("/health")
    async def health() -> dict[str, Any]:
        return {"status": "ok", "model": type(answering.estimator).__name__, "version": __version__}

    @app.get("/schema")
    async def columns() -> dict[str, Any]:
        return schema

    @app.get("/metrics")
    async def numbers() -> PlainTextResponse:
        return PlainTextResponse(generate_latest(metrics.registry), media_type=CONTENT_TYPE_LATEST)

    in_progress = 0

    @app.post("/predict")
    async def predict(request: Request) -> JSONResponse:
        nonlocal in_progress
        start, status = time.perf_counter(), 200
        answer: dict[str, Any] = {}
        in_progress += 1
        metrics.waiting.set(in_progress)
        try:
            if in_progress > max_waiting:
                status, answer = 503, {"error": f"{max_waiting} requests are waiting already; try again"}
            else:
                body = await _body(request, max_bytes)
                answer = await anyio.to_thread.run_sync(answering.answer, body)
                metrics.rows.inc(len(answer["predictions"]))
        except (TooLongError, TooMuchError) as error:
            status, answer = 413, {"error": str(error)}
        except ValueError as error:
            status, answer = 422, {"error": " ".join(str(error).split())}
        except Exception as error:
            status, answer = (503 if is_out_of_memory(error) else 500), {"error": describe(error)[0]}
        finally:
            in_progress -= 1
            metrics.waiting.set(in_progress)
        metrics.requests.labels(status).inc()
        metrics.seconds.observe(time.perf_counter() - start)
        return JSONResponse(answer, status)

    return app


async def _body(request: Any, max_bytes: int) -> bytes:
    """The body, of which no more is read than is allowed."""
    told = request.headers.get("content-length", "")
    parts, size = [], int(told) if told.isdecimal() else 0
    if size <= max_bytes:
        size = 0
        async for part in request.stream():
            parts.append(part)
            size += len(part)
            if size > max_bytes:
                break
    if size > max_bytes:
        raise TooLongError(f"the request has more than {max_bytes / 1e6:g} MB; send fewer rows at a time")
    return b"".join(parts)
