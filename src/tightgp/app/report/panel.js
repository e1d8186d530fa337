"use strict";
// The "what if" panel. `evaluate` computes what `Panel.predict` does in Python, from the same numbers.
const whatIf = (() => {
  const CORRELATIONS = {
    matern32: (r2) => { const s = Math.sqrt(3 * r2); return (1 + s) * Math.exp(-s); },
    matern52: (r2) => { const s = Math.sqrt(5 * r2); return (1 + s + s * s / 3) * Math.exp(-s); },
  };
  const squaredDistance = (a, b) => a.reduce((sum, v, i) => sum + (v - b[i]) * (v - b[i]), 0);
  const clipped = (v) => Math.exp(Math.min(v, 80));

  function inputFeatures(input, value) {
    if (input.labels.length) return input.levels[value];
    const raw = input.base.map(() => 0);
    raw[0] = value;
    input.periods.forEach((period, i) => {
      const phase = 2 * Math.PI * (((value % period) + period) % period) / period;
      raw[1 + 2 * i] = Math.sin(phase);
      raw[2 + 2 * i] = Math.cos(phase);
    });
    return input.base.map((base, i) => base + input.slope[i] * raw[i]);
  }

  function evaluate(panel, values) {
    const features = panel.inputs.flatMap((input, i) => inputFeatures(input, values[i]));
    const correlation = CORRELATIONS[panel.kernel];
    const basis = [1, ...features, ...panel.centres.map((centre) => correlation(squaredDistance(features, centre)))];
    const outputs = panel.weights[0].map((_, j) => basis.reduce((sum, b, i) => sum + b * panel.weights[i][j], 0));
    const nearest = Math.min(...panel.support.map((row) => squaredDistance(features, row)));
    const known = nearest <= panel.radius * panel.radius;
    if (panel.link === "softmax") {
      const largest = Math.max(...outputs);
      const exps = outputs.map((v) => Math.exp(v - largest));
      const total = exps.reduce((a, b) => a + b, 0);
      return { known, shown: exps.map((v) => v / total) };
    }
    const mean = panel.link === "log" ? clipped(outputs[0]) : outputs[0];
    const low = mean - clipped(outputs[2]);
    return { known, shown: [mean, panel.positive ? Math.max(low, 0) : low, mean + clipped(outputs[1])] };
  }

  const spelled = (value, decimals) => value.toLocaleString("en",
    { minimumFractionDigits: decimals, maximumFractionDigits: decimals }).replace("-", "−");
  function number(value, width) {
    const size = Math.abs(width || value);
    return spelled(value, size > 0 ? Math.min(8, Math.max(0, 2 - Math.floor(Math.log10(size)))) : 0);
  }
  function inputText(input, value) {
    if (input.kind === "time") {
      return new Date(1000 * value).toISOString().slice(0, input.high - input.low < 14 * 86400 ? 16 : 10).replace("T", " ");
    }
    return input.whole ? spelled(value, 0) : number(value, input.high - input.low);
  }
  const percent = (share) => `${(100 * share).toFixed(share > 0.1 ? 0 : 1)} %`;

  function ticks(low, high, count) {
    const rough = (high - low) / count, power = 10 ** Math.floor(Math.log10(rough));
    const step = power * [1, 2, 5, 10].find((m) => m * power >= rough * 0.999);
    const found = [];
    for (let t = Math.ceil(low / step) * step; t <= high + 1e-9 * step; t += step) found.push(Math.abs(t) < step / 2 ? 0 : t);
    return { found, step };
  }
  function draw(parent, name, attributes, text) {
    const element = document.createElementNS("http://www.w3.org/2000/svg", name);
    Object.entries(attributes).forEach(([key, value]) => element.setAttribute(key, value));
    if (text !== undefined) element.textContent = text;
    parent.appendChild(element);
    return element;
  }

  function start(root) {
    const panel = JSON.parse(root.dataset.panel);
    const controls = [...root.querySelectorAll("[data-input]")];
    const texts = [...root.querySelectorAll("[data-value]")];
    const answer = root.querySelector("[data-answer]"), range = root.querySelector("[data-range]");
    const warning = root.querySelector("[data-warning]"), chart = root.querySelector("[data-chart]");
    const bars = [...root.querySelectorAll("[data-class]")];
    const initial = controls.map((control) => control.value);
    const values = () => controls.map((control) => Number(control.value));
    let active = Math.max(0, panel.inputs.findIndex((input) => !input.labels.length));

    function curve(at) {
      const input = panel.inputs[active];
      const points = input.labels.length ? input.labels.map((_, i) => i)
        : Array.from({ length: 61 }, (_, i) => input.low + (input.high - input.low) * i / 60);
      return points.map((x) => ({ x, ...evaluate(panel, at.map((v, i) => (i === active ? x : v))) }));
    }

    function redraw(at, now) {
      const input = panel.inputs[active], points = curve(at), W = 360, H = 250, L = 56, R = 12, T = 12, B = 44;
      const known = points.filter((p) => p.known);
      const low = Math.min(panel.extent[0], ...known.map((p) => p.shown[1]));
      const high = Math.max(panel.extent[1], ...known.map((p) => p.shown[2]));
      const names = input.labels.length > 0;
      const left = names ? -0.5 : input.low, right = names ? input.labels.length - 0.5 : input.high;
      const X = (x) => L + (W - L - R) * (x - left) / ((right - left) || 1);
      const Y = (y) => H - B - (H - T - B) * (y - low) / ((high - low) || 1);
      chart.replaceChildren();
      chart.setAttribute("aria-label", `Predictions along ${input.name}`);
      const scale = ticks(low, high, 4);
      scale.found.forEach((t) => {
        draw(chart, "path", { class: "grid", d: `M${L} ${Y(t)}H${W - R}` });
        draw(chart, "text", { x: L - 6, y: Y(t) + 4, "text-anchor": "end" }, number(t, 30 * scale.step));
      });
      if (names) {
        const every = Math.ceil(input.labels.length / 6);
        input.labels.forEach((label, i) => {
          const text = label.length > 10 ? `${label.slice(0, 9)}…` : label;
          if (i % every === 0) draw(chart, "text", { x: X(i), y: H - B + 16, "text-anchor": "middle" }, text);
        });
      } else {
        const places = input.kind === "time" ? [0.1, 0.5, 0.9].map((s) => left + s * (right - left)) : ticks(left, right, 5).found;
        places.forEach((t) => draw(chart, "text", { x: X(t), y: H - B + 16, "text-anchor": "middle" },
          input.kind === "time" ? inputText(input, t) : number(t, 3 * (right - left))));
      }
      draw(chart, "path", { class: "axis", d: `M${L} ${H - B}H${W - R}` });
      const title = input.name.length > 50 ? `${input.name.slice(0, 49)}…` : input.name;
      draw(chart, "text", { class: "title", x: (L + W - R) / 2, y: H - 8, "text-anchor": "middle" }, title);
      if (names) {
        known.forEach((p) => {
          draw(chart, "path", { class: "whisker", d: `M${X(p.x)} ${Y(p.shown[1])}V${Y(p.shown[2])}` });
          draw(chart, "circle", { class: "point", cx: X(p.x), cy: Y(p.shown[0]), r: 3.5 });
        });
      } else {
        // Each run of points with training rows nearby is a line of its own.
        const runs = [];
        points.forEach((p, i) => {
          if (!p.known) return;
          if (i && points[i - 1].known) runs[runs.length - 1].push(p); else runs.push([p]);
        });
        runs.filter((run) => run.length > 1).forEach((run) => {
          const along = (k) => run.map((p) => `${X(p.x).toFixed(1)} ${Y(p.shown[k]).toFixed(1)}`);
          draw(chart, "path", { class: "band", d: `M${along(2).join("L")}L${along(1).reverse().join("L")}Z` });
          draw(chart, "path", { class: "line", d: `M${along(0).join("L")}` });
        });
      }
      if (now.known) draw(chart, "circle", { class: "here", cx: X(at[active]), cy: Y(now.shown[0]), r: 6 });
    }

    function update() {
      const at = values(), now = evaluate(panel, at);
      panel.inputs.forEach((input, i) => { if (!input.labels.length) texts[i].textContent = inputText(input, at[i]); });
      warning.hidden = now.known;
      root.classList.toggle("unknown", !now.known);
      if (bars.length) {
        bars.forEach((bar, i) => {
          bar.querySelector("rect").setAttribute("width", now.known ? 100 * now.shown[i] : 0);
          bar.querySelector("output").textContent = now.known ? percent(now.shown[i]) : "–";
        });
        return;
      }
      const [mean, low, high] = now.shown, width = high - low;
      answer.textContent = now.known ? number(mean, width) : "–";
      const ends = panel.whole ? [low, high].map((v) => spelled(Math.round(v), 0)) : [low, high].map((v) => number(v, width));
      range.textContent = now.known ? `${ends[0]} to ${ends[1]}` : "–";
      redraw(at, now);
    }

    controls.forEach((control, i) => control.addEventListener("input", () => { active = i; update(); }));
    controls.forEach((control, i) => control.addEventListener("focus", () => { active = i; update(); }));
    root.querySelector("[data-reset]").addEventListener("click", () => {
      controls.forEach((control, i) => { control.value = initial[i]; });
      update();
    });
    root.hidden = false;
    update();
  }
  return { evaluate, start };
})();
if (typeof module !== "undefined") module.exports = whatIf;
else document.querySelectorAll("[data-panel]").forEach(whatIf.start);
