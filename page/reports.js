// SPDX-License-Identifier: Apache-2.0
// What `predict` and `run` report: all reports of the page side by side, then one of them in full.
"use strict";

const kShares = [["compute", "compute", "var(--compute)"], ["launch", "launches", "var(--launch)"],
  ["exposed_communication", "communication that is waited for", "var(--exposed)"], ["waiting", "waiting for workers", "var(--waiting)"],
  ["bubble", "pipeline bubble", "var(--bubble)"], ["input", "waiting for input", "var(--input)"], ["server", "server", "var(--server)"],
  ["idle", "idle", "var(--idle)"]];
const kMemory = [["parameters", "var(--c1)"], ["gradients", "var(--c2)"], ["optimizer", "var(--c3)"], ["activations", "var(--c4)"],
  ["workspace", "var(--c5)"], ["buffers", "var(--c6)"], ["cache, driver and communication", "var(--idle)"]];

const engineWord = (r) => r.engine === "exec" ? "executed" : "predicted";
const systemOf = (r) => r.inputs.system_label || r.inputs.system;

const kLive = ["pinned", "now"];  // names of the documents of the live page

/** Reports that differ in the number of devices alone; their titles say what tells them apart. */
function seriesOf(entries) {
  const groups = new Map();
  for (const e of entries) {
    const {devices, ...rest} = e.report.inputs;
    const key = JSON.stringify([e.report.engine, e.file, rest]);
    if (!groups.has(key)) groups.set(key, {entries: [], inputs: {engine: engineWord(e.report), ...rest}, file: e.file});
    groups.get(key).entries.push(e);
  }
  const out = [...groups.values()];
  for (const s of out) s.entries.sort((a, b) => a.report.devices - b.report.devices);
  const keys = [...new Set(out.flatMap((s) => Object.keys(s.inputs)))]
    .filter((k) => new Set(out.map((s) => String(s.inputs[k]))).size > 1);
  const main = ["engine", "model", "system", "scheme", "precision", "batch_per_device", "recipe"].filter((k) => keys.includes(k));
  for (const s of out) {
    const told = main.length ? main : keys.filter((k) => k !== "system_label").slice(0, 3);
    s.title = told.filter((k) => s.inputs[k] !== undefined).map((k) => main.length ? s.inputs[k] : `${k.replace(/^set\./, "")}=${s.inputs[k]}`).join(", ");
    if (!s.title && !kLive.includes(s.file)) s.title = `${s.inputs.engine} on ${systemOf(s.entries[0].report)}`;
    for (const e of s.entries) e.series = s;
  }
  const same = new Map();
  for (const s of out) same.set(s.title, (same.get(s.title) || 0) + 1);
  for (const s of out) {
    if (kLive.includes(s.file)) s.title = s.title && out.length > 1 ? `${s.file}: ${s.title}` : s.file;
    else if (same.get(s.title) > 1) s.title += ` (${s.file})`;
  }
  return out;
}

function reportColumns(entries, several) {
  const r = (e) => e.report, has = (of) => entries.some((e) => isNumber(of(e)));
  const optional = (of, column) => has(of) ? [{...column, value: (e) => of(e) ?? null, number: true}] : [];
  return [
    {title: "Devices", value: (e) => r(e).devices, number: true},
    ...(several ? [{title: "Which", value: (e) => e.series.title, wide: true}] : []),
    {title: "Samples/s", value: (e) => r(e).samples_per_second, text: rate, number: true},
    {title: "90 % interval", value: (e) => r(e).samples_per_second_interval?.low ?? null, number: true,
      text: (v, e) => r(e).samples_per_second_interval ? `${rate(v)} to ${rate(r(e).samples_per_second_interval.high)}` : kDash},
    ...optional((e) => r(e).tokens_per_second, {title: "Tokens/s", text: rate}),
    ...optional((e) => e.cost?.usd_per_million_samples, {title: "USD a million", text: dollars}),
    ...optional((e) => e.cost?.usd_to_target?.value, {title: "Cost", text: dollars}),
    ...optional((e) => r(e).goodput?.samples_per_second, {title: "With failures", text: rate}),
    {title: "Step", value: (e) => r(e).iteration_seconds?.median ?? null, text: seconds, number: true},
    ...optional((e) => r(e).speedup, {title: "Speed-up", text: times}),
    ...optional((e) => r(e).scaling_efficiency, {title: "Efficiency", text: percent}),
    ...(entries.some((e) => r(e).staleness?.max > 0) ? [{title: "Staleness", value: (e) => r(e).staleness?.mean ?? null, text: (v) => figure(v), number: true}] : []),
    {title: "Memory", value: (e) => needs(r(e)), number: true, text: (v, e) => ofBytes(v, r(e).memory_bytes_per_device.capacity)},
    {title: "Bound by", value: (e) => r(e).fits ? r(e).bottleneck?.resource ?? "" : "does not fit", wide: true}];
}

/** Bytes of a device that decide whether the model fits. */
const needs = (r) => r.needs_bytes ?? (r.memory_bytes_per_device.nvidia_smi || r.memory_bytes_per_device.total);

function scalingChart(series) {
  const drawn = series.map((s) => ({title: s.title, points: s.entries.filter((e) => isNumber(e.report.samples_per_second)).map((e) => {
    const r = e.report, i = r.samples_per_second_interval;
    return {x: r.devices, y: r.samples_per_second, low: i?.low, high: i?.high,
      tip: `${s.title}\n${plural(r.devices, "device")}: ${rate(r.samples_per_second)} samples/s\n${between(i)}` +
        `${isNumber(r.scaling_efficiency) ? `\nefficiency ${percent(r.scaling_efficiency)}` : ""}`};
  })})).filter((s) => s.points.length);
  const counts = [...new Set(drawn.flatMap((s) => s.points.map((p) => p.x)))].sort((a, b) => a - b);
  if (counts.length < 2) return null;
  const log = counts[counts.length - 1] > 16;
  const figures = plainTable("Samples per second by devices", ["Devices", ...drawn.map((s) => s.title)], counts.map((n) => [figure(n),
    ...drawn.map((s) => { const p = s.points.find((q) => q.x === n); return p ? `${rate(p.y)}${isNumber(p.low) ? ` (${rate(p.low)} to ${rate(p.high)})` : ""}` : kDash; })]),
  drawn.map((s, i) => i + 1));
  return lineChart("Samples per second by number of devices, with 90 % intervals", drawn,
    {x: "devices", y: "samples/s", xText: (v) => figure(v), yText: rate, xTicks: counts, xLog: log, yLog: log}, figures);
}

/** Of reports or choices: [{label, time_share, note}]. */
function shareBars(title, rows, head) {
  const shown = rows.filter((r) => r.time_share);
  if (!shown.length) return null;
  const figures = plainTable(title, [head, ...kShares.map(([, name]) => name)],
    shown.map((r) => [r.label, ...kShares.map(([key]) => percent(r.time_share[key]))]), kShares.map((s, i) => i + 1));
  return barTable(title, shown.map((r) => ({label: r.label, note: r.note,
    parts: kShares.map(([key, name]) => ({name, share: r.time_share[key] || 0}))})), kShares.map(([, name, c]) => [name, c]), figures, [head, "", "Step"]);
}

function memoryBars(r) {
  const roles = r.memory_by_role && r.memory_by_role.length ? r.memory_by_role : [{role: "device", memory: r.memory_bytes_per_device}];
  const most = Math.max(...roles.map((x) => Math.max(x.memory.capacity, x.memory.nvidia_smi || x.memory.total)));
  const rows = roles.slice(0, 24).map(({role, devices, memory: m}) => ({
    label: devices ? `${role} (${plural(devices, "device")})` : role,
    parts: kMemory.map(([name]) => {
      const n = name in m ? m[name] : Math.max(0, (m.nvidia_smi || m.total) - m.total);
      return {name, share: n / most, text: bytes(n)};
    }),
    note: `${bytes(m.nvidia_smi || m.total)} of ${bytes(m.capacity)}`}));
  const keys = ["parameters", "gradients", "optimizer", "activations", "workspace", "buffers", "total", "reserved", "nvidia_smi", "capacity"]
    .filter((k) => roles.some((x) => x.memory[k] > 0));
  const figures = plainTable("Memory of a device", ["Role", ...keys.map((k) => k.replace("_", "-"))],
    roles.map((x) => [x.role, ...keys.map((k) => bytes(x.memory[k]))]), keys.map((k, i) => i + 1));
  return barTable(`Memory of a device by what is in it${r.fits ? "" : ": it does not fit"}`, rows, kMemory, figures, ["Role", "", "Needs"]);
}

/** Tensors in use as a device goes through the layers of a step. */
function memoryOverStep(r) {
  const role = (r.memory_by_role || []).find((x) => x.over_step && x.over_step.length);
  if (!role) return null;
  const steps = role.over_step, most = Math.max(...steps.map((p) => p.bytes)), peak = steps.findIndex((p) => p.bytes === most);
  const several = steps.some((p) => p.micro_batch > 0);
  const name = (p) => [p.pass, p.layer, several && p.layer ? `micro-batch ${p.micro_batch + 1}` : ""].filter(Boolean).join(", ");
  const [unit, called] = most >= 2 ** 30 ? [2 ** 30, "GiB"] : [2 ** 20, "MiB"];
  const begins = steps.map((p, i) => i).filter((i) => i === 0 || steps[i].pass !== steps[i - 1].pass);
  const points = steps.map((p, i) => ({x: i, y: p.bytes / unit, tip: `${name(p)}\n${bytes(p.bytes)}${i === peak ? ", the peak" : ""}`}));
  const figures = plainTable("Memory over a step", ["Pass", "Layer", ...(several ? ["Micro-batch"] : []), "Tensors in use"],
    steps.map((p) => [p.pass, p.layer, ...(several ? [String(p.micro_batch + 1)] : []), bytes(p.bytes)]), [several ? 3 : 2]);
  return lineChart(`Tensors in use over a step of a device (${role.role}), layer by layer; at the most ${bytes(most)} in ${name(steps[peak])}`,
    [{title: "tensors in use", points, marked: (p) => p.x === peak}],
    {x: several ? "passes, without micro-batches that repeat others" : "passes of the step, in their order", y: called, xText: (i) => begins.includes(i) ? steps[i].pass : "", yText: (v) => String(Number(v.toFixed(3))), xTicks: begins.slice(0, 12)}, figures);
}

/** One bar for each of [{name, share, more}], the longest as long as there is room. */
function namedBars(title, list, text = percent) {
  if (!list || !list.length) return null;
  const most = Math.max(...list.map((x) => x.share), 1e-12);
  return barTable(title, list.map((x) => ({label: x.name, note: text(x.share),
    parts: [{name: x.more || x.name, share: x.share / most, text: text(x.share)}]})), null, null);
}

function stalenessChart(r) {
  const bins = r.staleness?.histogram || [];
  const all = bins.reduce((n, b) => n + b.count, 0);
  if (!all) return null;
  const figures = plainTable("Staleness", ["Versions", "Gradients"], bins.map((b) => [figure(b.versions), figure(b.count)]), [0, 1]);
  return histogram(`Staleness of gradients: mean ${figure(r.staleness.mean)}, 95 % within ${r.staleness.p95}, most ${r.staleness.max} versions`,
    bins.map((b) => ({x: b.versions, share: b.count / all, tip: `${plural(b.versions, "version")}: ${plural(b.count, "gradient")}`})),
    {x: "versions between read and use of the parameters", y: "share of the gradients", xText: (v) => figure(v), yText: percent}, figures);
}

function headline({report: r, cost}) {
  const m = r.memory_bytes_per_device, p = r.progress, g = r.goodput;
  return cards([
    isNumber(r.samples_per_second) ? ["Samples per second", rate(r.samples_per_second), between(r.samples_per_second_interval)] :
      ["Result", "does not fit", `needs ${bytes(needs(r))} of ${bytes(m.capacity)}`, "bad"],
    isNumber(r.tokens_per_second) && ["Tokens per second", rate(r.tokens_per_second)],
    r.iteration_seconds && ["A step", seconds(r.iteration_seconds.median), `of ${plural(r.samples_per_iteration, "sample")}`],
    isNumber(r.scaling_efficiency) && r.devices > r.speedup_base_devices && ["Efficiency", percent(r.scaling_efficiency), `speed-up ${figure(r.speedup)} over ${plural(r.speedup_base_devices, "device")}`],
    r.bottleneck && ["Bound by", r.bottleneck.resource, isNumber(r.bottleneck.gain_if_unlimited) ? `without that limit ${percent(r.bottleneck.gain_if_unlimited)} more` : null],
    r.fits && ["Memory", bytes(needs(r)), `of ${bytes(m.capacity)}${m.barely_fits ? ", within the error of predictions" : ""}`, r.fits ? "" : "bad"],
    r.staleness && r.staleness.max > 0 && ["Staleness", figure(r.staleness.mean), `versions; most ${r.staleness.max}`],
    g && ["With failures", `${rate(g.samples_per_second)} /s`, `${percent(g.share)} of the time is useful`],
    p && isNumber(p.seconds) && [`To ${p.target === "loss" ? "a loss of " : ""}${amount(p.target_value)}${p.target === "loss" ? "" : ` ${p.target}`}`, seconds(p.seconds), isNumber(p.seconds_low) ? `${seconds(p.seconds_low)} to ${seconds(p.seconds_high)}` : null],
    cost && ["Cost", isNumber(cost.usd_to_target?.value) ? dollars(cost.usd_to_target.value) : `${dollars(cost.usd_per_hour)} an hour`,
      isNumber(cost.usd_to_target?.value) ? `${dollars(cost.usd_to_target.low)} to ${dollars(cost.usd_to_target.high)}, ${dollars(cost.usd_per_hour)} an hour` :
        isNumber(cost.usd_per_million_samples) ? `${dollars(cost.usd_per_million_samples)} for a million samples` : null],
    r.training && isNumber(r.training.last_loss) && ["Last loss", figure(r.training.last_loss), `first ${figure(r.training.first_loss)}`]]);
}

function assumptions(r) {
  const sources = (r.error_sources || []).length ? plainTable("Sources of the interval", ["What is uncertain", "Standard error"],
    r.error_sources.map((s) => [s.source, `${percent(s.relative_standard_error)}${isNumber(s.above) ? `, above ${percent(s.above)}` : ""}`]), [1]) : null;
  const inputs = Object.entries(r.inputs).map(([k, v]) => [k, String(v)]);
  return part("What this rests on",
    make("p", {}, r.engine === "exec" ? "Executed and measured." : r.calibrated ? "Predicted with measurements of this machine." :
      "Predicted from datasheets and stock curves; no measurement of this machine was used (--profile or --anchor gives one)."),
    bullets(r.extrapolates), bullets(r.notes), bullets(r.progress?.sources), bullets(r.progress?.unknown), sources,
    make("details", {class: "figures"}, make("summary", {}, "The whole question, resolved"),
      facts([...inputs, ["evaluator", r.evaluator], ["why this evaluator", r.evaluator_reason], ["seed", String(r.seed)], ["Tandem", r.tandem_version]])));
}

function remedies(r) {
  if (!r.remedies || !r.remedies.length) return null;
  return part("What would let it fit", plainTable("Remedies", ["Changes", "Devices", "A device needs"],
    r.remedies.map((x) => [x.changes.map((c) => `--${c.option} ${c.value}`).join(" "), figure(x.devices), `${bytes(x.needs_bytes)} of ${bytes(x.capacity_bytes)}`]), [1, 2]));
}

function goodputBars(g) {
  if (!g) return null;
  const names = [["useful", "useful work", "var(--compute)"], ["checkpoints", "checkpoints", "var(--launch)"], ["repeated", "repeated work", "var(--exposed)"],
    ["restarts", "restarts", "var(--bubble)"], ["waiting", "waiting for a node", "var(--waiting)"], ["fewer_nodes", "fewer nodes", "var(--server)"]];
  return part("Failures", barTable("Where the time goes with failures",
    [{label: "all time", parts: names.map(([k, name]) => ({name, share: g.time[k] || 0})), note: `${percent(g.share)} useful`}],
    names.map(([, name, c]) => [name, c]), plainTable("Time", names.map(([, n]) => n), [names.map(([k]) => percent(g.time[k]))], names.map((n, i) => i))),
  facts([["mean time between failures of all devices", seconds(g.mtbf_seconds)], ["a checkpoint takes", seconds(g.checkpoint_seconds)],
    ["between checkpoints", seconds(g.checkpoint_interval_seconds)], ["a restart takes", seconds(g.restart_seconds)]]));
}

function oneReport(e) {
  const r = e.report, exposed = (r.exposed_communication_by_kind || []).map((x) => ({name: x.name, share: x.share}));
  const kernels = (r.compute_by_kernel || []).map((k) => ({name: k.name, share: k.share, more: `${k.name}, most of it ${k.heaviest_pass}`}));
  const missing = [];
  if (r.fits && !(r.timeline || []).length) missing.push(lacks("No timeline in this report: it was made with --no-timeline, or by an engine that records none."));
  if (r.fits && !(r.links || []).length) missing.push(lacks(r.engine === "exec" ? "No links: an execution does not see them; tandem predict does." : "No links were used."));
  if (!r.progress) missing.push(lacks("No time to a target: --epochs, --tokens, --samples or --target-loss adds it."));
  if (!r.goodput) missing.push(lacks("No failures: --mtbf or --node-mtbf adds what they cost."));
  return [remedies(r),
    r.bottleneck?.explanation ? part("What limits it", make("p", {}, r.bottleneck.explanation),
      namedBars("Share of the step by kind of kernel", kernels), namedBars("Communication that is waited for, share of the step", exposed),
      namedBars("Waiting, share of the step", r.waiting_for)) : null,
    part("Memory", memoryBars(r), memoryOverStep(r)),
    (r.links || []).length ? part("Links", linkMap(r)) : null,
    r.staleness?.max > 0 ? part("Staleness", stalenessChart(r)) : null,
    (r.timeline || []).length ? part("Timeline", timeline(r.timeline)) : null,
    goodputBars(r.goodput), assumptions(r),
    e.command ? part("Ask again", command(e.command, "The command that gives this answer")) : null,
    missing.length ? part("What is not here", missing) : null].filter(Boolean);
}

const reportName = (e, several) => `${plural(e.report.devices, "device")}${several ? `: ${e.series.title}` : ""}`;

/** documents: [{file, document, commands}] of tandem-reports-2. */
function reportsView(documents) {
  const entries = documents.flatMap((d) => d.document.reports.map((report, i) => ({report, file: d.file, command: d.commands?.[i], cost: d.costs?.[i]})));
  if (!entries.length) return [lacks("There is no report in this document.")];
  const series = seriesOf(entries), several = series.length > 1;
  const fitting = entries.filter((e) => e.report.fits);
  const held = [...series].reverse().find((s) => s.file === "now" && s.entries.some((e) => e.report.fits)) || series.find((s) => s.entries.some((e) => e.report.fits));
  const start = fitting.length ? held.entries.filter((e) => e.report.fits).pop() : entries[entries.length - 1];
  const detail = make("section", {class: "detail", "aria-live": "off"});
  const bars = shareBars("Shares of a step, which is as long as said", series.flatMap((s) => s.entries).slice(0, 40).map((e) => ({label: reportName(e, several),
    time_share: e.report.time_share, note: e.report.iteration_seconds ? seconds(e.report.iteration_seconds.median) : ""})), "Devices");
  const head = make("section", {class: "detail", "aria-label": "Main figures"});
  const one = entries.length === 1;
  const show = (e) => {
    const other = documents.length > 1 && kLive.includes(e.file) && entries.find((x) => x.file !== e.file && x.report.devices === e.report.devices);
    head.replaceChildren(...(other ? [e, other].sort((a) => a.file === "pinned" ? -1 : 1) : [e]).flatMap((x) =>
      [one ? null : make("h3", {class: "of"}, `On ${reportName(x, several)}`), headline(x)]).filter(Boolean));
    detail.replaceChildren(...[one ? null : make("h3", {class: "of"}, `In detail: ${reportName(e, several)}`), ...oneReport(e)].filter(Boolean));
    say(`Shown in detail: ${reportName(e, several)}`);
  };
  const first = entries[0].report.inputs;
  const out = [make("p", {class: "what"}, several ? `${plural(entries.length, "report")} of ${plural(series.length, "question")}.` :
    `${first.model} with ${first.scheme} on ${first.system}, ${first.precision}, ${plural(first.batch_per_device, "sample")} per device; ${engineWord(entries[0].report)}.`), head];
  if (!one) out.push(part("All of them", dataTable(reportColumns(entries, several), entries, {caption: "Reports; choose one to see it in detail", pick: show, picked: start})));
  out.push(part("Scaling", scalingChart(series)), part("Where the time goes", bars), detail);
  show(start);
  return out;
}
