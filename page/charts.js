// SPDX-License-Identifier: Apache-2.0
// Charts: each takes figures as a document has them, and has them as a table too.
"use strict";

const kColours = 8;
const colour = (i) => `var(--c${i % kColours + 1})`;

/** Shows `text` at the pointer while it is over the node. */
function tip(element, text) {
  const box = document.getElementById("tip");
  const place = (e) => {
    box.style.left = `${Math.max(4, Math.min(e.clientX + 14, innerWidth - box.offsetWidth - 4))}px`;
    box.style.top = `${e.clientY + box.offsetHeight + 24 > innerHeight ? e.clientY - box.offsetHeight - 10 : e.clientY + 16}px`;
  };
  element.addEventListener("pointermove", (e) => {
    const found = typeof text === "function" ? text(e) : text;
    box.hidden = !found;
    if (!found) return;
    box.textContent = found;
    place(e);
  });
  element.addEventListener("pointerleave", () => { box.hidden = true; });
  return element;
}

/** A picture that is drawn again when its width changes. `figures`: the same as a table. */
function chart(title, paint, figures, legend = null) {
  const picture = make("div", {class: "picture"});
  let drawnAt = 0;
  const again = (width) => {
    if (width < 50 || Math.abs(width - drawnAt) < 2) return;
    drawnAt = width;
    const svg = paint(width);
    svg.setAttribute("role", "img");
    svg.setAttribute("aria-label", `${title}. The figures are in the table below.`);
    picture.replaceChildren(svg);
  };
  new ResizeObserver((seen) => again(Math.floor(seen[0].contentRect.width))).observe(picture);
  return make("figure", {}, make("figcaption", {}, title), legend, picture,
    figures ? make("details", {class: "figures"}, make("summary", {}, "Figures"), figures) : null);
}

const legendOf = (entries) => make("ul", {class: "legend"}, entries.map(([name, fillColour, kind]) =>
  make("li", {}, make("span", {class: `swatch ${kind || ""}`, style: {background: fillColour}}), name)));

/** Round values between, about so many: 1, 2 or 5 times a power of ten. */
function ticks(low, high, about) {
  const raw = (high - low) / Math.max(1, about), power = 10 ** Math.floor(Math.log10(raw));
  const step = power * ([1, 2, 5, 10].find((m) => m * power >= raw * 0.999) || 10);
  const out = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high * (1 + 1e-12) + 1e-12; ++i) out.push(i * step || 0);
  return out;
}

/** The same for times: 15 min, 1 h, 6 h. */
function timeTicks(low, high, about) {
  const step = kTimeSteps.find((t) => (high - low) / t <= about) || kTimeSteps[kTimeSteps.length - 1];
  const out = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high * (1 + 1e-12); ++i) out.push(i * step || 0);
  return out;
}

/** Of an axis of factors; `steps`: the round values, else 1, 2 and 5 times powers of ten. */
function logTicks(low, high, about, steps = null) {
  const powers = [];
  for (let p = Math.floor(Math.log10(low)); p <= Math.ceil(Math.log10(high)); ++p) powers.push(10 ** p);
  const within = (list) => list.filter((v) => v >= low * 0.999 && v <= high * 1.001);
  const tries = steps ? [within(steps)] : [[1, 1.5, 2, 3, 4, 5, 6, 8], [1, 2, 5], [1, 3], [1]].map((ms) => within(powers.flatMap((p) => ms.map((m) => m * p))));
  const fine = tries.find((list) => list.length <= about + 1) || tries[tries.length - 1];
  const each = Math.ceil(fine.length / (about + 1));
  return fine.filter((v, i) => i % each === 0);
}

/** An axis: at(v) in pixels. With `log` all values must be above 0. `kind`: "time", "bytes" or nothing. */
function axis(low, high, from, to, log = false, kind = "") {
  if (!(high > low)) high = low + (low === 0 ? 1 : Math.abs(low) * 0.5);
  const of = log ? (v) => Math.log(Math.max(v, low * 1e-3) / low) / Math.log(high / low) : (v) => (v - low) / (high - low);
  return {low, high, at: (v) => from + of(v) * (to - from),
    ticks: (about) => log ? logTicks(low, high, about, kSteps[kind]) : kind === "time" ? timeTicks(low, high, about) : ticks(low, high, about)};
}

const kSteps = {time: kTimeSteps, bytes: Array.from({length: 60}, (v, i) => 2 ** i)};

function gridLines(svg, x, y, box, names) {
  for (const v of names.yTicks || y.ticks(box.height / 45)) {
    svg.append(draw("line", {class: "grid", x1: box.left, x2: box.right, y1: y.at(v), y2: y.at(v)}),
      draw("text", {class: "tick", x: box.left - 6, y: y.at(v) + 4, "text-anchor": "end"}, names.yText(v)));
  }
  for (const v of names.xTicks || x.ticks(box.width / 90)) {
    svg.append(draw("line", {class: "grid", x1: x.at(v), x2: x.at(v), y1: box.top, y2: box.bottom}),
      draw("text", {class: "tick", x: x.at(v), y: box.bottom + 17, "text-anchor": "middle"}, names.xText(v)));
  }
  svg.append(draw("text", {class: "axis", x: box.right, y: box.bottom + 35, "text-anchor": "end"}, names.x),
    draw("text", {class: "axis", x: 4, y: 12}, names.y));
}

function frameOf(width, height, left = 62) {
  const box = {left, right: width - 14, top: 24, bottom: height - 42};
  return {...box, width: box.right - box.left, height: box.bottom - box.top};
}

/** Lines with bands. series: {title, points: [{x, y, low, high, tip}]}; names: x, y, xText, yText, xTicks, log. */
function lineChart(title, series, names, figures) {
  const points = series.flatMap((s) => s.points);
  const xs = points.map((p) => p.x), ys = points.flatMap((p) => [p.y, p.low, p.high]).filter(isNumber);
  const legend = series.length > 1 ? legendOf(series.map((s, i) => [s.title, colour(i), "line"])) : null;
  return chart(title, (width) => {
    const height = Math.min(380, Math.max(240, width * 0.45)), box = frameOf(width, height);
    const svg = draw("svg", {width, height, viewBox: `0 0 ${width} ${height}`});
    const x = axis(Math.min(...xs), Math.max(...xs), box.left + 10, box.right - 10, names.xLog, names.xKind);
    const y = axis(names.yLog ? Math.min(...ys) * 0.8 : 0, Math.max(...ys) * 1.05, box.bottom, box.top, names.yLog, names.yKind);
    const shown = names.xTicks && {...names, xTicks: names.xTicks.filter((v, i, all) => i === all.length - 1 ||
      Math.abs(x.at(all[all.length - 1]) - x.at(v)) > 30 && (i === 0 || x.at(v) - x.at(all[i - 1]) > 22 || i % 2 === 0))};
    gridLines(svg, x, y, box, shown || names);
    series.forEach((s, i) => {
      const path = (list) => list.map(([a, b], k) => `${k ? "L" : "M"}${x.at(a).toFixed(1)} ${y.at(b).toFixed(1)}`).join("");
      const band = s.points.filter((p) => isNumber(p.low) && isNumber(p.high));
      if (band.length > 1 && series.length <= 3)
        svg.append(draw("path", {class: "band", style: {fill: colour(i)},
          d: `${path([...band.map((p) => [p.x, p.high]), ...band.map((p) => [p.x, p.low]).reverse()])}Z`}));
      svg.append(draw("path", {class: s.guide ? "line guide" : "line", style: {stroke: s.guide ? null : colour(i)},
        d: path(s.points.map((p) => [p.x, p.y]))}));
      if (s.guide) return;
      for (const p of s.points)
        svg.append(tip(draw("circle", {class: s.marked ? "point" : "dot", cx: x.at(p.x), cy: y.at(p.y), r: s.marked && !s.marked(p) ? 2 : 5, style: {fill: colour(i)}}),
          p.tip || `${s.title}\n${names.xText(p.x)}: ${names.yText(p.y)}`));
    });
    return svg;
  }, figures, legend);
}

/**
 * Points with intervals. points: {x, y (each {low, value, high}), number, tip, kind ("first", "front" or "")}; front: those
 * that none beats; limits: {x, y} or nothing.
 */
function scatterChart(title, points, front, limits, names, figures) {
  const range = (key, limit) => {
    const values = points.map((p) => p[key].value), most = Math.max(...values) * 3, least = Math.min(...values) / 3;
    const all = [...points.flatMap((p) => [Math.max(p[key].low, least), Math.min(p[key].high, most)]), ...values];
    const far = Math.max(...all), near = Math.min(...all);
    const log = near > 0 && far / near > 12;
    if (isNumber(limit) && limit < far * 1.7 && limit > near / 1.7) all.push(limit);
    const low = Math.min(...all), high = Math.max(...all);
    return {log, low: log ? low / 1.15 : Math.max(0, low - (high - low) * 0.08), high: log ? high * 1.15 : high + (high - low) * 0.08};
  };
  const rx = range("x", limits.x), ry = range("y", limits.y);
  return chart(title, (width) => {
    const height = Math.min(460, Math.max(280, width * 0.55)), box = frameOf(width, height, 76);
    const svg = draw("svg", {width, height, viewBox: `0 0 ${width} ${height}`});
    const x = axis(rx.low, rx.high, box.left, box.right, rx.log, names.xKind), y = axis(ry.low, ry.high, box.bottom, box.top, ry.log);
    gridLines(svg, x, y, box, names);
    const within = (v, a) => Math.min(Math.max(v, a.low), a.high);
    if (isNumber(limits.x) && limits.x >= x.low && limits.x <= x.high)
      svg.append(draw("line", {class: "limit", x1: x.at(limits.x), x2: x.at(limits.x), y1: box.top, y2: box.bottom}),
        draw("text", {class: "tick", x: x.at(limits.x) - 5, y: box.top + 12, "text-anchor": "end"}, names.xLimit));
    if (isNumber(limits.y) && limits.y >= y.low && limits.y <= y.high)
      svg.append(draw("line", {class: "limit", x1: box.left, x2: box.right, y1: y.at(limits.y), y2: y.at(limits.y)}),
        draw("text", {class: "tick", x: box.right - 4, y: y.at(limits.y) - 5, "text-anchor": "end"}, names.yLimit));
    const best = front.map((i) => points.find((p) => p.index === i)).filter(Boolean).sort((a, b) => a.x.value - b.x.value);
    if (best.length > 1)
      svg.append(draw("path", {class: "front", d: best.map((p, i) => i === 0 ? `M${x.at(p.x.value)} ${y.at(p.y.value)}` :
        `H${x.at(p.x.value)}V${y.at(p.y.value)}`).join("")}));
    for (const p of [...points].reverse()) {
      const cx = x.at(p.x.value), cy = y.at(p.y.value);
      svg.append(draw("g", {class: `point ${p.kind}`},
        draw("path", {class: "whisker", d: `M${x.at(within(p.x.low, x))} ${cy}H${x.at(within(p.x.high, x))}` +
          `M${cx} ${y.at(within(p.y.low, y))}V${y.at(within(p.y.high, y))}`}),
        tip(draw("circle", {cx, cy, r: p.kind ? 10 : 8}), p.tip),
        draw("text", {class: "inside", x: cx, y: cy + 3.5, "text-anchor": "middle"}, p.number)));
    }
    return svg;
  }, figures, legendOf([["first", "var(--first)"], ["none is better in both", "var(--front)"], ["others", "var(--other)"]]));
}

/** Bars of several parts. rows: {label, parts: [{name, share, text}], note}; a full bar is 1. kinds: [name, colour]; none: all alike. */
function barTable(title, rows, kinds, figures, heads = ["", "", ""]) {
  const seen = (kinds || []).filter(([name]) => rows.some((r) => r.parts.some((p) => p.name === name && p.share >= 0.002)));
  const colours = new Map(kinds || []);
  return make("figure", {}, make("figcaption", {}, title),
    seen.length > 1 ? legendOf(seen) : null,
    make("table", {class: rows.some((r) => typeof r.label === "string" && r.label.length > 34) ? "bars wordy" : "bars"}, make("caption", {class: "unseen"}, title),
      make("thead", {class: "unseen"}, make("tr", {}, heads.map((h, i) => make("th", {scope: "col"}, h || ["What", "Bar", "Figure"][i])))),
      make("tbody", {}, rows.map((r) => make("tr", {}, make("th", {scope: "row"}, r.label),
        make("td", {}, make("div", {class: "bar", role: "img",
          "aria-label": r.parts.filter((p) => p.share >= 0.002).map((p) => `${p.name} ${p.text || percent(p.share)}`).join(", ") || "nothing"},
        r.parts.filter((p) => p.share > 0).map((p) => tip(make("span", {class: "piece",
          style: {width: `${100 * Math.min(1, p.share)}%`, background: colours.get(p.name) || "var(--compute)"}}),
        `${p.name}: ${p.text || percent(p.share)}`)))),
        make("td", {class: "number"}, r.note || ""))))),
    figures ? make("details", {class: "figures"}, make("summary", {}, "Figures"), figures) : null);
}

/** Columns over whole numbers. bins: {x, share, tip}. */
function histogram(title, bins, names, figures) {
  return chart(title, (width) => {
    const height = 240, box = frameOf(width, height, 56), svg = draw("svg", {width, height, viewBox: `0 0 ${width} ${height}`});
    const low = Math.min(...bins.map((b) => b.x)), high = Math.max(...bins.map((b) => b.x));
    const x = axis(low - 0.5, high + 0.5, box.left, box.right), y = axis(0, Math.max(...bins.map((b) => b.share)) * 1.05, box.bottom, box.top);
    const whole = ticks(low, Math.max(high, low + 1), Math.min(high - low, box.width / 50)).filter((v) => Number.isInteger(v) && v <= high);
    gridLines(svg, x, y, box, {...names, xTicks: whole.length ? whole : [low]});
    const wide = Math.max(1, box.width / (high - low + 1) * 0.8);
    for (const b of bins)
      svg.append(tip(draw("rect", {class: "column", x: x.at(b.x) - wide / 2, width: wide, y: y.at(b.share), height: box.bottom - y.at(b.share)}), b.tip));
    return svg;
  }, figures);
}

/** A line from low to high in each row, with a point where it has a value, beside a reference. rows: {label, low, high, value, tip}. */
function rangeChart(title, rows, names, figures) {
  const bounds = rows.flatMap((r) => [r.low, r.high, r.value]).filter(isNumber);
  if (isNumber(names.reference)) bounds.push(names.reference);
  let low = Math.min(...bounds), high = Math.max(...bounds);
  const log = low > 0 && names.log !== false && high / low > 4, edge = (high - low) * 0.06 || 0.1;
  low = log ? low / 1.08 : names.zero ? Math.min(0, low) : low - edge;
  high = log ? high * 1.08 : high + edge;
  return chart(title, (width) => {
    const beside = width > 620, each = beside ? 28 : 44, left = beside ? Math.min(330, width * 0.4) : 10;
    const height = rows.length * each + 66, box = {...frameOf(width, height, left), top: 22};
    const svg = draw("svg", {width, height, viewBox: `0 0 ${width} ${height}`});
    const x = axis(low, high, box.left, box.right - 10, log, names.xKind);
    gridLines(svg, x, axis(0, 1, box.bottom, box.top), {...box, height: 0}, {...names, y: "", yTicks: [], yText: String});
    for (const line of svg.querySelectorAll("line.grid")) line.setAttribute("y1", 20);
    if (isNumber(names.reference))
      svg.append(draw("line", {class: "reference", x1: x.at(names.reference), x2: x.at(names.reference), y1: 20, y2: box.bottom}));
    rows.forEach((r, i) => {
      const top = 20 + i * each, y = top + (beside ? each / 2 : 32);
      svg.append(draw("text", {class: "label", x: beside ? left - 12 : 10, y: beside ? y + 4 : top + 15,
        "text-anchor": beside ? "end" : "start"}, shortened(r.label, beside ? left - 16 : width - 20)));
      const g = draw("g", {class: "range"});
      if (isNumber(r.low) && isNumber(r.high))
        g.append(draw("rect", {x: Math.min(x.at(r.low), x.at(r.high)), width: Math.max(2, Math.abs(x.at(r.high) - x.at(r.low))), y: y - 5, height: 10, rx: 3}));
      if (isNumber(r.value)) g.append(draw("circle", {cx: x.at(r.value), cy: y, r: 6}));
      svg.append(tip(g, r.tip));
    });
    return svg;
  }, figures);
}

/** As much of a text as is about so many pixels wide. */
function shortened(text, pixels) {
  const letters = Math.floor(pixels / 6.9);
  return text.length <= letters ? text : `${text.slice(0, Math.max(1, letters - 1))}…`;
}
