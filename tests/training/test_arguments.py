"""What `fit` refuses, before it computes anything."""

import jax.numpy as jnp
import numpy as np
import pytest

import tightgp as tgp
from tests.training.problems import sgpr, svgp, train_on_batches

KERNEL = tgp.kernels.SquaredExponential(1.0, [1.0, 1.0])
Z = np.arange(10.0).reshape(5, 2)
BLOCKS = tgp.SGPR(KERNEL, Z, bound=tgp.Block(8))
SVGP = tgp.SVGP(KERNEL, tgp.likelihoods.Gaussian(0.1), Z, tgp.Block(8))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"method": "sgd"},
            "method must be one of 'lbfgs', 'adam', 'natural', or an optax transformation .*; got 'sgd'",
        ),
        ({"steps": 0}, "steps must be a whole number of at least 1"),
        ({"learning_rate": -1.0}, "learning_rate must be positive"),
        ({"restarts": -1}, "restarts must be a whole number of at least 0"),
        ({"seed": "a"}, "seed must be a whole number"),
        ({"callback": 3}, "callback must be a function"),
        ({"learning_rate": [0.1, 0.2]}, "learning_rate must be one finite number"),
        ({"tolerance": 0.0}, "tolerance must be positive"),
    ],
)
def test_bad_arguments_of_every_method(snelson_like, arguments, message):
    with pytest.raises(ValueError, match=message):
        tgp.fit(sgpr(snelson_like), snelson_like, **arguments)


def test_what_is_no_model(snelson_like):
    with pytest.raises(ValueError, match=r"model must be a model such as tightgp\.SGPR, got SquaredExponential"):
        tgp.fit(tgp.kernels.SquaredExponential(), snelson_like)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "lbfgs"}, "batch_size goes with method='adam' or 'natural'"),
        ({"batch_size": 0}, "batch_size must be a whole number"),
        ({"epochs": 0}, "epochs must be"),
        ({"patience": 0}, "patience must be"),
        ({"stream": "no"}, "stream must be"),
        ({"restarts": 2}, "restarts go with full-batch"),
        ({"validation": (1, 2)}, "validation must be a tightgp.Dataset"),
        ({"validation": tgp.Dataset(np.ones((2, 3)), np.ones(2))}, "validation: X has 3 column"),
        ({"validation": tgp.Dataset(np.ones((1, 1)), [np.nan], missing=True)}, "no target that is not missing"),
        ({"learning_rate": lambda step: -1.0}, "learning_rate must be positive"),
        ({"learning_rate": lambda step: 0.1 if step > 1 else 0.2}, "use jnp.where"),
        ({"learning_rate": lambda step: jnp.ones(2)}, "learning_rate must be one finite number"),
        ({"natural_rate": 0.1}, "natural_rate goes with"),
        ({"batch_size": None, "epochs": 3}, "epochs goes with minibatches"),
    ],
)
def test_bad_arguments_of_minibatches(waves, options, message):
    with pytest.raises(ValueError, match=message):
        train_on_batches(
            svgp(waves), waves, **{"epochs": None, **options} if options.get("batch_size", 1) is None else options
        )


def test_what_cannot_be_trained_so(waves):
    sgpr = tgp.SGPR(tgp.kernels.SquaredExponential(), waves.X[:5])
    with pytest.raises(ValueError, match=r"explicit q\(u\) such as SVGP; SGPR sees all rows"):
        train_on_batches(sgpr, waves)
    with pytest.raises(ValueError, match=r"such as SVGP, not SGPR"):
        tgp.fit(sgpr, waves, "natural")
    with pytest.raises(ValueError, match="batch_size is needed"):
        tgp.fit(svgp(waves), tgp.Batches([waves], 203))
    with pytest.raises(ValueError, match="got dict"):
        train_on_batches(svgp(waves), {"X": waves.X, "y": waves.y})


@pytest.mark.parametrize(
    ("model", "options", "message"),
    [
        (
            tgp.SGPR(KERNEL, Z, bound=tgp.Block(8)),
            {"refresh": -1},
            "refresh must be a whole number of at least 0, got -1",
        ),
        (
            tgp.SGPR(KERNEL, Z, bound=tgp.Block(8)),
            {"refresh": True},
            "refresh must be a whole number of at least 0, got True",
        ),
        (
            tgp.SGPR(KERNEL, Z, bound=tgp.Block(8)),
            {"refresh": 1.5},
            "refresh must be a whole number of at least 0, got 1.5",
        ),
        (
            tgp.SGPR(KERNEL, Z),
            {"refresh": 1},
            r"refresh needs a bound that groups neighbours, such as .*Block\(64\)",
        ),
        (tgp.SGPR(KERNEL, Z, bound=tgp.Block(1)), {"refresh": 1}, "refresh needs a bound"),
        (tgp.SGPR(KERNEL, Z, bound=tgp.PowerEP(1.0)), {"refresh": 1}, "refresh needs a bound"),
        (tgp.SGPR(KERNEL, Z, bound=tgp.Block(8, "rows")), {"refresh": 1}, "refresh needs a bound"),
        (tgp.SGPR(KERNEL, Z, bound=tgp.Block(8, "random")), {"refresh": 1}, "refresh needs a bound"),
        (tgp.ExactGP(KERNEL), {"refresh": 1}, "this ExactGP has no such partition"),
        (
            tgp.SVGP(KERNEL, tgp.likelihoods.Gaussian(0.1), Z, tgp.Block(8)),
            {"refresh": 1, "batch_size": 16},
            "refresh goes with full-batch training, so leave out batch_size",
        ),
    ],
)
def test_bad_arguments_of_refresh(model, options, message, monkeypatch):
    monkeypatch.setattr(type(model), "prepare", lambda *_: pytest.fail("prepared"))
    with pytest.raises(ValueError, match=message):
        tgp.fit(model, tgp.Dataset(Z, np.ones(5)), **options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"resume": True}, "resume=True needs checkpoint"),
        ({"checkpoint": 3}, "checkpoint must be the name of a file"),
        ({"checkpoint": "a", "checkpoint_seconds": -1}, "checkpoint_seconds must not be negative"),
        ({"checkpoint": "a", "resume": "yes"}, "resume must be True or False"),
    ],
)
def test_bad_arguments_of_checkpoints(snelson_like, options, message):
    with pytest.raises(ValueError, match=message):
        tgp.fit(sgpr(snelson_like), snelson_like, **options)
