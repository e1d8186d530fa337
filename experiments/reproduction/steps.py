"""The steps past the paper: ways to train, each with its bound, kernel and start."""

from dataclasses import dataclass

import tightgp as tgp


@dataclass(frozen=True)
class Step:
    """One way to train.

    It has a bound, one lengthscale or one for each input (ARD), a start of the inducing points, a share of the steps,
    and a multiple of the inducing points. It may also predict from nearest training rows.
    """

    label: str
    bound: str | tgp.Structure = "diagonal"
    ard: bool = False
    local: bool = True
    greedy: bool = False
    share: float = 1.0
    times: int = 1

    @property
    def is_bound(self) -> bool:
        return isinstance(self.bound, str) or self.bound.is_bound

    @property
    def rounds(self) -> int:
        """Rounds of training: two where blocks are recomputed half-way, by the lengthscales learnt so far."""
        return 2 if self.ard and self.bound != "diagonal" else 1


PEP, PITC = tgp.PowerEP(0.5, block=64), tgp.PowerEP(1.0, block=64)
ONE = {
    "short": Step("collapsed, L-BFGS, a quarter of the steps", local=False, share=0.25),
    "collapsed": Step("collapsed, L-BFGS"),
    "twice": Step("collapsed, L-BFGS, twice the inducing points", local=False, share=0.75, times=2),
    "greedy": Step("greedy inducing points", local=False, greedy=True),
    "block": Step("blocks of 64", tgp.Block(64)),
    "pitc": Step("PITC of 64 (no bound)", PITC),
}
EACH = {
    "collapsed-ard": Step("ARD: collapsed, L-BFGS", ard=True),
    "block-ard": Step("ARD: blocks of 64", tgp.Block(64), ard=True),
    "pep-ard": Step("ARD: Power EP ½ of 64 (no bound)", PEP, ard=True),
    "pitc-ard": Step("ARD: PITC of 64 (no bound)", PITC, ard=True),
}
STEPS_TAKEN = ONE | EACH
#: The paper's protocol by tightgp and by GPyTorch, for their times.
PROTOCOL, GPYTORCH = "protocol", "gpytorch"
