"""The page in a browser: nothing from the data runs, nothing is asked for, and a phone needs no sideways scrolling."""

import html
import json
import re
import shutil
import subprocess

import numpy as np
import pytest

from tests.app.report import problems
from tightgp.app.report import render

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
BROWSER = next(filter(None, map(shutil.which, NAMES)), None)
pytestmark = pytest.mark.skipif(BROWSER is None, reason=f"none of {', '.join(NAMES)} is on PATH")

QUIET = [
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--hide-scrollbars"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-extensions"),
    *("--disable-dev-shm-usage", "--enable-logging=stderr"),
]

# Looks at the page in its frame from outside.
MEASURE = """
frame.onload = () => {
  const page = frame.contentDocument, root = page.documentElement, view = frame.contentWindow;
  const sticking = [...page.querySelectorAll('body *')].filter(e => !e.closest('.scroll') && !e.closest('svg')
    && e.getBoundingClientRect().right > root.clientWidth + 1).map(e => e.tagName + '.' + e.className);
  const boxes = [...page.querySelectorAll('.scroll')];
  const shown = [...page.querySelectorAll('svg.chart')].map(e => e.getBoundingClientRect());
  document.getElementById('out').textContent = JSON.stringify({
    width: root.clientWidth, scroll: root.scrollWidth, sticking,
    boxes: boxes.every(e => e.getBoundingClientRect().right <= root.clientWidth + 1),
    scrolling: boxes.filter(e => e.scrollWidth > e.clientWidth).length,
    charts: shown.length, drawn: shown.filter(r => r.width > 200 && r.height > 80).length,
    scripts: page.querySelectorAll('script').length,
    elements: [...page.querySelectorAll('img, iframe, link, object, image, a')].length,
    requests: view.performance.getEntriesByType('resource').map(e => e.name),
    title: page.title, text: page.body.textContent, paper: view.getComputedStyle(page.body).backgroundColor,
  });
};
"""


def look(page, tmp_path, *flags, width=360, script=MEASURE, rules=False):
    """What a script finds in ``page`` in a window of some width, and what the browser logged."""
    # Without its own rules on content unless they are wanted, so that what is tested is the escaping.
    page = page if rules else re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", page)
    outer = f"""<!doctype html><meta charset="utf-8"><iframe id="frame" width="{width}" height="800" style="border:0"
      srcdoc="{html.escape(page)}"></iframe><pre id="out"></pre><script>
      const frame = document.getElementById('frame'); {script}</script>"""
    path = tmp_path / "outer.html"
    path.write_text(outer, encoding="utf-8")
    home = f"--user-data-dir={tmp_path / 'profile'}"
    command = [BROWSER, *QUIET, home, "--virtual-time-budget=4000", "--dump-dom", *flags, path.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    found = re.search(r'<pre id="out">(.+?)</pre>', done.stdout, flags=re.DOTALL)
    assert found, done.stderr[-2000:]
    return json.loads(html.unescape(found[1])), [line for line in done.stderr.splitlines() if "CONSOLE" in line]


@pytest.mark.parametrize("kind", ["regression", "classes"])
def test_on_a_phone(contents, kind, tmp_path):
    seen, console = look(render(contents[kind]), tmp_path)
    assert console == []
    assert seen["requests"] == []
    assert seen["elements"] == 0
    assert seen["scripts"] == 1
    assert seen["title"].startswith(contents[kind].subject.target)
    assert problems.SCRIPT in seen["text"]
    assert seen["width"] == 360
    assert seen["scroll"] == 360, seen["sticking"]
    assert seen["boxes"]
    assert seen["charts"] == seen["drawn"] >= 5


def test_wide_tables_scroll_in_their_own_box(contents, tmp_path):
    seen, _ = look(render(contents["regression"]), tmp_path)
    assert seen["scrolling"] >= 1


def test_dark_screens(contents, tmp_path):
    page = render(contents["counts"])
    light, _ = look(page, tmp_path, "--blink-settings=preferredColorScheme=1", width=1000)
    dark, _ = look(page, tmp_path, "--blink-settings=preferredColorScheme=0", width=1000)
    assert light["paper"] == "rgb(255, 255, 255)"
    assert max(int(v) for v in re.findall(r"\d+", dark["paper"])) < 40


def test_the_page_keeps_its_own_rules(contents, tmp_path):
    """The rules on content that the page carries forbid none of what it needs: the console stays silent."""
    path = tmp_path / "report.html"
    path.write_text(render(contents["binary"]), encoding="utf-8")
    command = [BROWSER, *QUIET, f"--user-data-dir={tmp_path / 'profile'}", "--dump-dom", path.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert "Predicting species" in done.stdout
    assert not [line for line in done.stderr.splitlines() if "CONSOLE" in line]


def test_on_paper(contents, tmp_path):
    """It prints, on several pages."""
    page, paper = tmp_path / "report.html", tmp_path / "report.pdf"
    page.write_text(render(contents["regression"]), encoding="utf-8")
    home = f"--user-data-dir={tmp_path / 'profile'}"
    command = [BROWSER, *QUIET, home, "--no-pdf-header-footer", f"--print-to-pdf={paper}", page.as_uri()]
    subprocess.run(command, capture_output=True, timeout=120, check=True)
    assert 3 <= len(re.findall(rb"/Type\s*/Page\b", paper.read_bytes())) <= 10


# Changes an input of the panel, and reads what it says before and after.
TOUCH = """
frame.onload = () => {
  const page = frame.contentDocument, panel = page.querySelector('[data-panel]'), view = frame.contentWindow;
  const data = JSON.parse(panel.dataset.panel), controls = [...panel.querySelectorAll('[data-input]')];
  const read = () => ({
    values: controls.map((one) => Number(one.value)), hidden: panel.hidden,
    shown: [...panel.querySelectorAll('[data-answer], [data-range], [data-class] output')].map((e) => e.textContent),
    warning: !panel.querySelector('[data-warning]').hidden, drawn: panel.querySelectorAll('[data-chart] *').length,
  });
  const set = (i, value) => { controls[i].value = value; controls[i].dispatchEvent(new view.Event('input')); };
  const before = read(), number = data.inputs.findIndex((one) => !one.labels.length);
  set(number, data.inputs[number].low);
  const low = read();
  const level = data.inputs.findIndex((one) => one.labels.length);
  if (level >= 0) set(level, data.inputs[level].labels.length - 1);
  const both = read();
  panel.querySelector('[data-reset]').click();
  document.getElementById('out').textContent = JSON.stringify({ before, low, both, after: read(), title: page.title });
};
"""


@pytest.mark.parametrize("kind", ["regression", "counts", "classes"])
def test_the_panel_predicts_what_python_does(contents, kind, tmp_path):
    """Under the page's own rules on content, in a real browser."""
    panel = contents[kind].panel
    seen, console = look(render(contents[kind]), tmp_path, script=TOUCH, rules=True)
    assert console == []
    assert all(seen["before"][name] == seen["after"][name] for name in ("values", "shown", "warning"))
    assert seen["before"]["values"] != seen["low"]["values"]
    for state in ("before", "low", "both"):
        found, features = seen[state], panel.features([[v] for v in seen[state]["values"]])
        assert not found["hidden"]
        assert found["warning"] != bool(panel.is_known(features)[0])
        if found["warning"]:
            assert set(found["shown"]) == {"–"}
            continue
        shown = [
            float(re.sub("[, %]", "", text).replace("−", "-")) for text in " to ".join(found["shown"]).split(" to ")
        ]
        wanted = panel.predict(features)[0]
        if panel.labels:
            np.testing.assert_allclose(shown, 100 * wanted, atol=0.6)
        else:
            np.testing.assert_allclose(shown, wanted, atol=0.51 if panel.whole else 0.006 * (wanted[2] - wanted[1]))
            assert found["drawn"] > 5
