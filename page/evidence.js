// SPDX-License-Identifier: Apache-2.0
// Predictions beside measurements: cross-checks, validations, races, collectives; and sweeps.
"use strict";

function checkView({document: c}) {
  const label = (x) => `${x.model}, ${x.scheme}, ${plural(x.devices, "worker")}: ${x.metric.replace(/_/g, " ")}`;
  const rates = c.cases.filter((x) => x.metric === "samples_per_second");
  return [make("p", {class: "what"}, `${c.machine}, ${c.date}; ${c.versions}.`),
    cards([["Mean error", percent(c.mean_abs_error)], ["Largest error", percent(c.max_abs_error)],
      ["Inside the interval", percent(c.interval_coverage), `should be about ${percent(c.interval_level)}`], ["Cases", figure(c.cases.length)]]),
    rates.length ? part("Samples per second", rangeChart("Predicted over executed, minus one: error of the samples per second", rates.slice(0, 60).map((x) => ({label: label(x).replace(/: samples.*/, ""), value: x.error,
      tip: `${label(x)}\npredicted ${rate(x.predicted)}, executed ${rate(x.executed)}\nerror ${percent(x.error)}`})), {x: "error", xText: percent, reference: 0, log: false},
    plainTable("Errors", ["Case", "Predicted", "Executed", "Error"], rates.map((x) => [label(x), rate(x.predicted), rate(x.executed), percent(x.error)]), [1, 2, 3]))) : null,
    part("All cases", dataTable([{title: "Model", value: (x) => x.model}, {title: "Scheme", value: (x) => x.scheme, wide: true}, {title: "Workers", value: (x) => x.devices, number: true},
      {title: "Batch", value: (x) => x.batch_per_device, number: true}, {title: "Metric", value: (x) => x.metric}, {title: "Predicted", value: (x) => x.predicted, text: rate, number: true},
      {title: "Executed", value: (x) => x.executed, text: rate, number: true}, {title: "Error", value: (x) => x.error, text: percent, number: true},
      {title: "Repeatability", value: (x) => x.repeatability, text: percent, number: true},
      {title: "In interval", value: (x) => x.in_interval === undefined ? "" : x.in_interval ? "yes" : "no"}], c.cases, {caption: "Cases"})),
    c.run ? part("What else ran meanwhile", facts([["processors", figure(c.run.processors)], ["other programs", percent(c.run.other_programs_share)],
      ["taken by the hypervisor", percent(c.run.stolen_share)], ["interruptions a second", figure(c.run.preemptions_per_second)]])) :
      lacks("It does not say what else ran meanwhile.")];
}

const kWords = (key) => { const t = key.replace(/_/g, " "); return t[0].toUpperCase() + t.slice(1); };

/** Columns of all plain values that rows have, in the order in which these come. */
function columnsOf(rows, skip = []) {
  const kinds = new Map();
  for (const row of rows.slice(0, 500)) {
    for (const [key, v] of Object.entries(row)) {
      if (skip.includes(key) || (v !== null && typeof v === "object")) continue;
      if (!kinds.has(key) || v !== null) kinds.set(key, v === null ? kinds.get(key) ?? null : typeof v);
    }
  }
  const unit = (key) => /bytes_per_second$/.test(key) ? bytesPerSecond : /bytes$/.test(key) ? bytes : /(^|_)seconds(_|$)/.test(key) ? seconds :
    /(efficiency|error|share|coverage)$/.test(key) ? percent : (v) => isNumber(v) ? figure(v, 4) : v ?? kDash;
  const longest = (key) => rows.slice(0, 50).reduce((n, row) => Math.max(n, String(row[key] ?? "").length), 0);
  return [...kinds].map(([key, kind]) => ({title: kWords(key), key, number: kind === "number", wide: kind === "string" && (longest(key) > 60 ? "long" : true),
    value: (row) => typeof row[key] === "boolean" ? (row[key] ? "yes" : "no") : row[key] ?? null, text: kind === "number" ? unit(key) : undefined}));
}

function validationView({document: v}) {
  const errors = (e) => e ? [figure(e.rows), percent(e.mean), percent(e.median), percent(e.bias), percent(e.worst), percent(e.interval_coverage)] : Array(6).fill(kDash);
  const all = (v.summary || []).find((s) => s.rows === "all") || {};
  const met = (v.aims || []).filter((a) => a.rows > 0);
  const heads = ["Rows", "Mean error", "Median", "Bias", "Worst", "In interval"];
  return [cards([["Rates: mean error", percent(all.rates?.mean), all.rates ? `of ${plural(all.rates.rows, "row")}` : null],
    ["Speed-ups: mean error", percent(all.speedups?.mean), all.speedups ? `of ${plural(all.speedups.rows, "row")}` : null],
    met.length ? ["Aims met", `${met.filter((a) => a.met).length} of ${met.length}`, "of those with rows"] : null]),
  met.length ? part("Aims", plainTable("Aims", ["Aim", "Rows", "Value", "Wanted", "Met"], met.map((a) => [a.what, figure(a.rows), percent(a.value), `${percent(a.low)} to ${percent(a.high)}`, a.met ? "yes" : "no"]), [1, 2, 3])) : null,
  (v.summary || []).length ? part("By source: rates", plainTable("Errors of rates by source", ["Source", ...heads], v.summary.map((s) => [s.rows, ...errors(s.rates)]), [1, 2, 3, 4, 5, 6]),
    make("h4", {}, "Speed-ups"), plainTable("Errors of speed-ups by source", ["Source", ...heads], v.summary.map((s) => [s.rows, ...errors(s.speedups)]), [1, 2, 3, 4, 5, 6])) : null,
  part("All rows", dataTable(columnsOf(v.rows), v.rows, {caption: "Predictions and measurements"})),
  (v.staleness || []).length ? part("Staleness", dataTable(columnsOf(v.staleness), v.staleness, {caption: "Staleness"})) : null];
}

function raceView({document: r}) {
  const e = r.entries;
  const label = (x) => `${x.scheme}, ${plural(x.workers, "worker")}`;
  return [make("p", {class: "what"}, `${r.model} on ${r.data} to a loss of ${figure(r.target_loss)}, ${plural(r.batch, "sample")} a worker and step, ${plural(r.seeds, "run")} each.`),
    part("Time to the loss", rangeChart("Executed, with 90 % of the bootstrap (bar), and predicted (point)", e.map((x) => ({label: label(x), low: x.executed_seconds_low, high: x.executed_seconds_high, value: x.predicted_seconds,
      tip: `${label(x)}\npredicted ${seconds(x.predicted_seconds)}\nexecuted ${seconds(x.executed_seconds)} (${seconds(x.executed_seconds_low)} to ${seconds(x.executed_seconds_high)})`})), {x: "time", xText: seconds, xKind: "time", zero: true},
    plainTable("Time to the loss", ["Scheme", "Predicted", "Executed", "90 %"], e.map((x) => [label(x), seconds(x.predicted_seconds), seconds(x.executed_seconds),
      `${seconds(x.executed_seconds_low)} to ${seconds(x.executed_seconds_high)}`]), [1, 2, 3]))),
    part("All of them", dataTable(columnsOf(e), e, {caption: "Schemes"})),
    part("Order by time, predicted against executed", plainTable("Orders", ["Workers", "Pairs", "Kendall's tau", "90 %"], r.orders.map((o) => [figure(o.workers), figure(o.pairs), figure(o.kendall_tau), `${figure(o.low)} to ${figure(o.high)}`]), [0, 1, 2, 3]))];
}

function collectiveView({document: c}) {
  const runs = c.runs || [c];
  return runs.flatMap((run) => {
    const points = (key, title) => ({title, points: run.rows.filter((r) => isNumber(r[key]) && r.bytes > 0).map((r) => {
      const i = key === "seconds" ? r.seconds_interval : null;
      return {x: r.bytes, y: r[key], low: i?.low, high: i?.high, tip: `${bytes(r.bytes)}: ${seconds(r[key])}\n${title}${r.algorithm ? `, ${r.algorithm} ${r.protocol}` : ""}`};
    })});
    const series = [points("seconds", "predicted"), points("measured_seconds", "measured"), points("best_seconds", "what the links allow")].filter((s) => s.points.length);
    return [make("p", {class: "what"}, `${run.kind} of ${plural(run.devices, "device")} on ${run.system}, ${run.library}; ${run.calibrated ? "with measurements of this machine" : "without measurements of this machine"}.`),
      part("Time by size", lineChart("Time by size, with the 90 % interval", series, {x: "bytes", y: "time", xText: bytes, xKind: "bytes", yText: seconds, xLog: true, yLog: true, yKind: "time"}, null)),
      part("All sizes", dataTable([{title: "Bytes", value: (r) => r.bytes, text: bytes, number: true}, {title: "Time", value: (r) => r.seconds, text: seconds, number: true},
        ...(run.rows.some((r) => r.measured_seconds) ? [{title: "Measured", value: (r) => r.measured_seconds ?? null, text: seconds, number: true}] : []),
        {title: "algbw", value: (r) => r.algbw_bytes_per_second, text: bytesPerSecond, number: true}, {title: "busbw", value: (r) => r.busbw_bytes_per_second, text: bytesPerSecond, number: true},
        {title: "Links allow", value: (r) => r.best_seconds ?? null, text: seconds, number: true}, {title: "Algorithm", value: (r) => r.algorithm}, {title: "Protocol", value: (r) => r.protocol}], run.rows, {caption: "Sizes"}))];
  });
}

/** The values of points if they are few. */
const few = (points, i) => { const all = [...new Set(points.map((p) => p[i]))]; return all.length <= 9 ? all.sort((a, b) => a - b) : undefined; };

/** Every point of a sweep in two of its columns. */
function cloud(rows, columns) {
  const numbers = columns.filter((c) => c.number && new Set(rows.slice(0, 2000).map(c.value)).size > 1);
  if (numbers.length < 2) return null;
  const chosen = (name, fallback) => numbers.find((c) => c.key === name) || fallback;
  const y0 = chosen("samples_per_second", numbers[1]), x0 = [chosen("devices", null), ...numbers].find((c) => c && c !== y0);
  const place = make("div");
  const choice = (title, start) => {
    const id = newId("axis");
    const list = make("select", {id, onchange: () => paint()}, numbers.map((c) => make("option", {value: c.key, selected: c === start}, c.title)));
    return {list, node: make("span", {class: "choice"}, make("label", {for: id}, title), list)};
  };
  const x = choice("Across", x0), y = choice("Up", y0);
  const column = (c) => numbers.find((n) => n.key === c.list.value);
  const kinds = columns.filter((c) => !c.number && new Set(rows.map(c.value)).size <= kColours);
  const by = make("select", {id: newId("axis"), onchange: () => paint()}, make("option", {value: ""}, "nothing"), kinds.map((c) => make("option", {value: c.key, selected: c === kinds[kinds.length - 1]}, c.title)));
  function paint() {
    const a = column(x), b = column(y), kind = kinds.find((c) => c.key === by.value);
    const names = kind ? [...new Set(rows.map(kind.value))].sort() : [""];
    const points = rows.map((row) => [a.value(row), b.value(row), row]).filter(([p, q]) => isNumber(p) && isNumber(q));
    if (!points.length) { place.replaceChildren(lacks("No row has both figures.")); return; }
    const range = (i) => { let low = Infinity, high = -Infinity; for (const p of points) { low = Math.min(low, p[i]); high = Math.max(high, p[i]); } return {low, high, log: low > 0 && high / low > 20}; };
    const rx = range(0), ry = range(1);
    place.replaceChildren(chart(`${b.title} against ${a.title}`, (width) => {
      const height = Math.min(420, Math.max(260, width * 0.5)), box = frameOf(width, height, 76), svg = draw("svg", {width, height, viewBox: `0 0 ${width} ${height}`});
      const ax = axis(rx.log ? rx.low : Math.min(0, rx.low), rx.high, box.left + 8, box.right - 8, rx.log), ay = axis(ry.log ? ry.low : Math.min(0, ry.low), ry.high, box.bottom - 6, box.top, ry.log);
      gridLines(svg, ax, ay, box, {x: a.title, y: b.title, xText: (v) => a.text(v), yText: (v) => b.text(v), xTicks: few(points, 0)});
      const at = points.map(([p, q, row]) => [ax.at(p), ay.at(q), row]);
      names.forEach((name, i) => svg.append(draw("path", {class: "cloud", style: {stroke: colour(i)},
        d: at.filter(([, , row]) => !kind || kind.value(row) === name).map(([p, q]) => `M${p.toFixed(1)} ${q.toFixed(1)}h0`).join("")})));
      tip(svg, (e) => {
        const frame = svg.getBoundingClientRect(), px = e.clientX - frame.left, py = e.clientY - frame.top;
        let best = null, least = 144;
        for (const p of at) { const d = (p[0] - px) ** 2 + (p[1] - py) ** 2; if (d < least) { least = d; best = p; } }
        return best ? columns.slice(0, 14).map((c) => [c, c.value(best[2])]).filter(([, v]) => v !== null && v !== "default").map(([c, v]) => `${c.title}: ${c.text ? c.text(v) : v}`).join("\n") : "";
      });
      return svg;
    }, null, kind ? legendOf(names.map((name, i) => [name ?? kDash, colour(i)])) : null));
  }
  paint();
  return part("Any two figures", make("div", {class: "buttons"}, x.node, y.node,
    make("span", {class: "choice"}, make("label", {for: by.id}, "Colours"), by)), place);
}

function sweepView({document: s}) {
  const rows = s.rows, skip = ["hash", "question", "report"];
  const all = columnsOf(rows, skip);
  const varied = all.filter((c) => { const first = rows.length ? c.value(rows[0]) : null; return rows.some((r) => c.value(r) !== first); });
  const same = all.filter((c) => !varied.includes(c) && rows.length && c.value(rows[0]) !== null && c.value(rows[0]) !== "default");
  const shown = varied.length ? varied : all;
  const status = new Map();
  for (const r of rows) status.set(r.status, (status.get(r.status) || 0) + 1);
  return [cards([["Cells", figure(rows.length)], ...[...status].filter(([k]) => k).map(([k, n]) => [kWords(k), figure(n)])]),
    same.length ? part("The same in all cells", facts(same.map((c) => [c.title, c.text ? c.text(c.value(rows[0])) : String(c.value(rows[0]))]))) : null,
    cloud(rows, shown), part("All cells", dataTable(shown, rows, {caption: "Cells of the sweep"}))];
}
