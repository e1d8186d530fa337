"""``tightgp serve``: a fitted model's predictions over HTTP."""

from tightgp.app.cli.options import ServeRequest
from tightgp.app.cli.prediction import load_estimator
from tightgp.app.cli.terminal import Terminal
from tightgp.app.serving.answering import Answering

#: Seconds that requests in progress are given to end when the service is stopped.
_GRACE = 30


def serve(request: ServeRequest, terminal: Terminal) -> None:
    """Answer requests until SIGTERM or Ctrl-C; those in progress are answered first."""
    try:
        import uvicorn

        from tightgp.app.serving.service import make_app
    except ImportError as error:
        raise ValueError(
            f"tightgp serve needs the package {error.name}, which is not installed: pip install 'tightgp[serve]'"
        ) from None
    answering = Answering(load_estimator(request.model, request.neighbours), request.max_rows)
    with terminal.spinner("preparing the model"):
        answering.warm_up()
    app = make_app(answering, int(request.max_body * 1e6), request.max_waiting)
    terminal.print(f"{type(answering.estimator).__name__} answers at http://{request.host}:{request.port}/predict")
    settings = uvicorn.Config(
        app, request.host, request.port, log_level="warning", timeout_graceful_shutdown=_GRACE, server_header=False
    )
    server = uvicorn.Server(settings)
    server.run()
    if not server.started:
        raise OSError(f"cannot listen on {request.host}:{request.port}; is the port in use?")
