"""From the report's content to one HTML page that needs nothing else."""

from importlib import resources
from itertools import pairwise
from pathlib import Path

from tightgp.files import written_whole
from tightgp.report import charts, numbers, verdicts, words
from tightgp.report.content import Content, PathStep, Trace
from tightgp.report.scored import Heldout
from tightgp.report.svg import Svg, clean, shortened

_TEMPLATE, _STYLE = "page.html.j2", "page.css"

#: What followed numbers are called: above their chart, and at the start of a sentence.
TRACES = {
    "objective": ("objective, nats", "The objective"),
    "energy": ("Power EP's objective (no bound), nats", "Power EP's objective, which is no bound,"),
    "noise": ("noise standard deviation", "The noise's standard deviation"),
    "v": ("v, mean over latent functions", "The mean v"),
    "validation": ("mean log density of validation rows", "The validation score"),
}


def render(content: Content) -> str:
    """The page. It holds no script and asks for nothing from elsewhere; whatever comes from data is escaped."""
    import jinja2

    loader = jinja2.FunctionLoader(lambda name: (resources.files(__package__) / name).read_text(encoding="utf-8"))
    environment = jinja2.Environment(
        loader=loader, autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.finalize = _fit_for_a_page
    template = environment.get_template(_TEMPLATE)
    style = Svg((resources.files(__package__) / _STYLE).read_text(encoding="utf-8"))
    return template.render(
        c=content,
        style=style,
        n=numbers,
        w=words,
        v=verdicts,
        charts=charts,
        shortened=shortened,
        cards=_cards(content),
        trace_title=lambda one: TRACES.get(one.name, (one.name, ""))[0],
        settled=_settled,
        path_rows=_path_rows(content.evidence.path, content.evidence.num_data),
        pit_expected=_pit_expected,
        target=shortened(content.subject.target, 60),
    )


def write(content: Content, path: str | Path) -> Path:
    """Write the page to ``path``, whole or not at all."""
    path = Path(path)
    page = render(content)
    with written_whole(path) as temporary:
        temporary.write_text(page, encoding="utf-8")
    return path


def _fit_for_a_page(value):
    return clean(value) if isinstance(value, str) and not hasattr(value, "__html__") else value


def _settled(one: Trace) -> str:
    return words.drift(one, TRACES.get(one.name, ("", f"“{shortened(one.name, 30)}”"))[1])


def _cards(content: Content) -> list[tuple[str, str, str]]:
    """The headline: a few numbers, each with its name and what to hold it against."""
    cards = []
    held = content.heldout
    for score in held.scores if held else ():
        if score.name != "MAE":
            cards.append((score.name, verdicts.shown(score, score.model), _against(score)))
    if held and held.coverage:
        widest = held.coverage[-1]
        chance = f"{numbers.percent(widest.low)} to {numbers.percent(widest.high)} by chance"
        cards.append((f"in {numbers.percent(widest.level, 0)} intervals", numbers.percent(widest.observed), chance))
    if content.noise_sd is not None:
        cards.append(("noise", numbers.number(content.noise_sd), "standard deviation"))
    verdict, _ = words.evidence(content.evidence, content.subject.num_inducing, content.scales)
    cards.append(("inducing points", numbers.whole(content.subject.num_inducing), verdict.lower()))
    if not held:
        cards.insert(0, ("objective", numbers.number(content.training.objective, 4), "nats, log evidence at least"))
    return cards


def _against(score) -> str:
    return "" if score.baseline is None else f"without inputs {verdicts.shown(score, score.baseline)}"


def _path_rows(path: tuple[PathStep, ...], num_data: int) -> list[tuple[PathStep, float | None, float | None]]:
    """Each stage of the search for M with what it gained, in nats a row and in nats a new inducing point."""
    rows: list[tuple[PathStep, float | None, float | None]] = [(step, None, None) for step in path[:1]]
    for before, step in pairwise(path):
        gain, new = step.bound - before.bound, step.num_inducing - before.num_inducing
        rows.append((step, gain / num_data, gain / new if new else None))
    return rows


def _pit_expected(held: Heldout) -> tuple[float, float]:
    """Between which counts chance keeps a bin of P(Y ≤ y)."""
    from tightgp.scores import binomial_range

    assert held.calibration is not None
    low, high = binomial_range(held.num_rows, 1 / len(held.calibration.pit.counts))
    return low * held.num_rows, high * held.num_rows
