// SPDX-License-Identifier: Apache-2.0
// Plans, advice and comparisons.
"use strict";

const machineName = (c) => `${c.nodes}${c.spare_nodes ? `+${c.spare_nodes}` : ""} × ${c.system}`;
const offerName = (c) => c.offer ? `${c.offer.seller}, ${c.offer.kind === "buy" ? "to buy" : c.offer.kind}` : "no price";
const estimate = (e, text) => e ? `${text(e.value)} (${text(e.low)} to ${text(e.high)})` : kDash;

function front(title, plan, key, text, indices, limitsOf, names) {
  const shown = plan.candidates.map((c, i) => ({c, i})).filter(({c}) => c[key]).slice(0, 60);
  if (!shown.length) return null;
  const of = (e) => ({low: e.low, value: e.value, high: e.high});
  const points = shown.map(({c, i}) => ({x: of(c.finish_seconds), y: of(c[key]), index: i, number: i + 1,
    kind: i === 0 ? "first" : indices.includes(i) ? "front" : "",
    tip: `${i + 1}. ${machineName(c)}, ${offerName(c)}\ndone in ${estimate(c.finish_seconds, seconds)}\n${estimate(c[key], text)}`}));
  const figures = plainTable(title, ["Rank", "Machine", "Done in", names.y], shown.map(({c, i}) =>
    [String(i + 1), `${machineName(c)}, ${offerName(c)}`, estimate(c.finish_seconds, seconds), estimate(c[key], text)]), [0, 2, 3]);
  return scatterChart(title, points, indices, limitsOf, {...names, x: "time until it is done", xText: seconds, xKind: "time", yText: text, xLimit: "deadline"}, figures);
}

function candidateDetail(c, rank) {
  const money = c.cost ? [["rent", "var(--c1)"], ["capital", "var(--c2)"], ["power", "var(--c3)"], ["hosting", "var(--c4)"], ["maintenance", "var(--c5)"]] : [];
  const sum = money.reduce((n, [k]) => n + (c.cost[k] || 0), 0);
  return [part(`In detail: ${rank}. ${machineName(c)}`, facts([["trained with", c.scheme], ["devices", figure(c.devices)], ["samples of a device in a pass", figure(c.batch)], ["precision", c.precision],
      ["recomputation", c.recompute], ["offload", c.offload], ["samples/s", rate(c.samples_per_second)], ["done in", estimate(c.finish_seconds, seconds)],
      ["cost", c.cost ? estimate(c.cost, dollars) : null], ["outlay", c.cost?.outlay ? dollars(c.cost.outlay) : null], ["energy", estimate(c.energy_joules, joules)],
      ["power", estimate(c.watts, watts)], ["carbon", c.carbon_kg ? estimate(c.carbon_kg, (v) => `${figure(v)} kg`) : null],
      ["time that failures leave", percent(c.useful_share)], ["keeps the deadline", percent(c.meets_deadline_probability)],
      ["keeps the budget", percent(c.meets_budget_probability)]]),
    sum > 0 ? barTable("What the run costs, by kind", [{label: "cost", note: dollars(c.cost.value),
      parts: money.map(([name]) => ({name, share: (c.cost[name] || 0) / sum, text: dollars(c.cost[name])}))}], money,
    plainTable("Cost", money.map(([n]) => n), [money.map(([n]) => dollars(c.cost[n]))], money.map((m, i) => i))) : null),
    c.offer ? part("Where the price is from", facts([["offer", c.offer.name], ["seller", c.offer.seller], ["price", dollars(c.offer.usd)],
      ["date", `${c.offer.date}, ${c.offer.age}`], ["source", c.offer.source]])) : lacks("No price is known for it: --offers FILE gives one."),
    c.reasons?.length ? part("Remarks", bullets(c.reasons)) : null,
    part("Ask again", command(c.predict, "The command that predicts it"), c.run ? [make("p", {}, "Train on it:"), command(c.run, "The command that trains on it")] : null)];
}

function planView({document: plan}) {
  const [first] = plan.candidates, limits = plan.limits;
  const asked = Object.entries(plan.target).map(([k, v]) => k === "loss" ? `to a loss of ${figure(v)}` : `${amount(v)} ${k.replace(/_/g, " ")}`).join(", ");
  const model = first.question?.model, moneyText = (e) => `${dollars(e.low)} to ${dollars(e.high)}`;
  const detail = make("section", {class: "detail"});
  const show = (c) => detail.replaceChildren(...candidateDetail(c, plan.candidates.indexOf(c) + 1).filter(Boolean));
  const of = (key) => (c) => c[key]?.value ?? null;
  const columns = [{title: "Rank", value: (c) => plan.candidates.indexOf(c) + 1, number: true}, {title: "Machine", value: machineName},
    {title: "Offer", value: offerName}, {title: "Trained with", value: (c) => c.scheme, wide: true},
    {title: "Samples/s", value: (c) => c.samples_per_second, text: rate, number: true},
    {title: "Done in", value: of("finish_seconds"), text: seconds, number: true},
    {title: "Cost", value: of("cost"), text: dollars, number: true},
    {title: "Energy", value: of("energy_joules"), text: joules, number: true}, {title: "Power", value: of("watts"), text: watts, number: true},
    ...(limits.deadline_seconds ? [{title: "In time", value: (c) => c.meets_deadline_probability, text: percent, number: true}] : []),
    ...(limits.budget_usd ? [{title: "In budget", value: (c) => c.meets_budget_probability, text: percent, number: true}] : []),
    {title: "All limits", value: (c) => c.meets ? "kept" : "not kept"}];
  const names = {y: "cost", yLimit: "budget"};
  const influences = plan.influences || [];
  const second = plan.candidates[1];
  const out = [make("p", {class: "what"}, `${model ? `${model}, ` : ""}${asked}, ${plural(plan.global_batch, "sample")} in a step; ranked by what is ${plan.rank === "soonest" ? "done soonest" : plan.rank}. ` +
    `Prices as of ${plan.today}.${limits.deadline_seconds ? ` Deadline ${seconds(limits.deadline_seconds)}.` : ""}${limits.budget_usd ? ` Budget ${dollars(limits.budget_usd)}.` : ""}${limits.watts ? ` At most ${watts(limits.watts)}.` : ""}`),
    cards([["First", machineName(first), offerName(first), first.meets === false ? "bad" : ""],
      ["Done in", seconds(first.finish_seconds.value), between(first.finish_seconds, seconds)],
      first.cost && ["Cost", dollars(first.cost.value), moneyText(first.cost)],
      first.energy_joules && ["Energy", joules(first.energy_joules.value), between(first.energy_joules, joules)],
      first.watts && ["Power", watts(first.watts.value), between(first.watts, watts)],
      isNumber(plan.first_beats_second_probability) && ["Better than the second", percent(plan.first_beats_second_probability), second ? machineName(second) + ", " + offerName(second) : null]]),
    part("All candidates", dataTable(columns, plan.candidates, {caption: "Candidates; choose one to see it in detail", pick: show, picked: first})),
    part("Time and money", front("Time against money, with 90 % intervals", plan, "cost", dollars, plan.pareto || [], {x: limits.deadline_seconds, y: limits.budget_usd}, names)),
    part("Time and power", front("Time against power, with 90 % intervals", plan, "watts", watts, plan.pareto_watts || [], {x: limits.deadline_seconds, y: limits.watts}, {y: "power", yLimit: "limit"})),
    influences.length ? part("What decides", rangeChart("The second's value over the first's, as one input varies", influences.map((i) => ({...i, label: i.what,
      tip: `${i.what}\n${figure(i.low)} to ${figure(i.high)}`})), {x: "left of 1 the second is better", xText: (v) => figure(v), reference: 1},
    plainTable("What decides", ["What varies", "Low", "High"], influences.map((i) => [i.what, figure(i.low), figure(i.high)]), [1, 2]))) : null,
    (plan.break_even || []).length ? part("What would make them equal", plainTable("Changes that would make the second as good as the first", ["What changes", "Times"],
      plan.break_even.map((b) => [b.what, times(b.factor)]), [1])) : null, detail,
    (plan.left_out || []).length ? part("Left out", plainTable("Machines left out", ["Machine", "Why"], plan.left_out.map((l) => [`${l.nodes} × ${l.system}`, l.why]))) : null,
    (plan.missing || []).length ? part("Not known", bullets(plan.missing)) : null,
    make("p", {class: "hint"}, `${plural(plan.priced, "machine")} and ${plural(plan.ways, "way")} to train on them were compared by bounds, ${figure(plan.predicted)} predicted.`)];
  show(first);
  return out;
}

function adviceView({document: advice}) {
  const choices = advice.choices;
  if (!choices.length) return [lacks("Nothing fits: the schemes below say why."), schemesTried(advice)];
  const [first] = choices;
  const detail = make("section", {class: "detail"});
  const show = (c) => detail.replaceChildren(part(`In detail: ${c.rank}. ${c.scheme}`, facts([
    ["devices", figure(c.devices)], ["samples in a pass", figure(c.batch_per_device)], ["passes of a step", figure(c.micro_batches)], ["replicas", figure(c.replicas)],
    ["tensor", figure(c.tensor)], ["pipeline", figure(c.pipeline)], ["expert", figure(c.expert)], ["context", figure(c.context)], ["precision", c.precision],
    ["recomputation", c.recompute], ["offload", c.offload], ["bound by", c.bottleneck]]), bullets(c.reasons)));
  const columns = [{title: "Rank", value: (c) => c.rank, number: true}, {title: "Scheme", value: (c) => c.scheme, wide: true},
    {title: "Devices", value: (c) => c.devices, number: true}, {title: "Precision", value: (c) => c.precision},
    {title: "Samples/s", value: (c) => c.samples_per_second, text: rate, number: true},
    {title: "90 % interval", value: (c) => c.samples_per_second_interval?.low ?? null, number: true, text: (v, c) => between({...c.samples_per_second_interval, level: null})},
    {title: "Memory", value: (c) => c.memory_bytes_per_device.total, number: true, text: (v, c) => ofBytes(v, c.memory_bytes_per_device.capacity)},
    {title: "Bound by", value: (c) => c.bottleneck, wide: true}, {title: "Learns as one worker", value: (c) => c.learns_as_one_worker ? "yes" : "no"}];
  const ratios = choices.slice(0, 20);
  const out = [make("p", {class: "what"}, `${advice.model} on ${advice.system}: at most ${plural(advice.devices, "device")}, ${plural(advice.samples_per_step, "sample")} in a step.`),
    cards([["First", first.scheme, `${plural(first.devices, "device")}, ${first.precision}`], ["Samples per second", rate(first.samples_per_second), between(first.samples_per_second_interval)],
      isNumber(first.tokens_per_second) && ["Tokens per second", rate(first.tokens_per_second)],
      ["Memory", bytes(first.memory_bytes_per_device.total), `of ${bytes(first.memory_bytes_per_device.capacity)}`], ["Bound by", first.bottleneck],
      isNumber(advice.first_beats_second) && ["Faster than the second", percent(advice.first_beats_second), choices[1]?.scheme]]),
    part("Ways to train", dataTable(columns, choices, {caption: "Ways to train; choose one to see it in detail", pick: show, picked: first})),
    part("How far apart", rangeChart("Samples per second with 90 % intervals", ratios.map((c) => ({label: `${c.rank}. ${c.scheme}`, low: c.samples_per_second_interval?.low,
      high: c.samples_per_second_interval?.high, value: c.samples_per_second, tip: `${c.scheme}\n${rate(c.samples_per_second)} samples/s, ${between(c.samples_per_second_interval)}` +
      `${c.rank > 1 && c.to_first_interval ? `\nof the first's rate ${between(c.to_first_interval, figure)}` : ""}`})), {x: "samples/s", xText: rate, zero: true, log: false},
    plainTable("Samples per second", ["Way", "Samples/s", "90 % interval", "Of the first's rate"], ratios.map((c) => [`${c.rank}. ${c.scheme}`, rate(c.samples_per_second),
      between({...c.samples_per_second_interval, level: null}), between({...c.to_first_interval, level: null}, figure)]), [1, 2, 3]))),
    part("Where the time goes", shareBars("Shares of a step", ratios.map((c) => ({label: `${c.rank}. ${c.scheme}`, time_share: c.time_share, note: ""})), "Way")), detail,
    part("Ask again", command(advice.predict, "The command that predicts the first"), advice.run ? [make("p", {}, "Run it on this machine:"), command(advice.run, "The command that runs the first"), bullets(advice.run_notes)] : null),
    schemesTried(advice)];
  show(first);
  return out;
}

const schemesTried = (advice) => part("Schemes that were tried", plainTable("Schemes that were tried", ["Scheme", "Best samples/s", "Remark"], advice.schemes.map((s) => [s.scheme,
  isNumber(s.best_samples_per_second) ? rate(s.best_samples_per_second) : kDash, s.refusal || (isNumber(s.needs_bytes) ? `does not fit: a device needs ${bytes(s.needs_bytes)}` :
    isNumber(s.bound_samples_per_second) ? `cannot be faster than ${rate(s.bound_samples_per_second)}` : "")]), [1]),
make("p", {class: "hint"}, `${plural(advice.ways, "way")} considered, ${figure(advice.simulated)} simulated${advice.complete ? "" : "; the search was cut short"}.`));

function comparisonView({document: c}) {
  const rows = c.rows, known = rows.filter((r) => isNumber(r.samples_per_second_ratio));
  const label = (r) => `${r.b.model}, ${r.a.devices === r.b.devices ? plural(r.b.devices, "device") : `${r.a.devices} and ${r.b.devices} devices`}`;
  const detail = make("section", {class: "detail"});
  const columns = [{title: "Model", value: (r) => r.b.model}, {title: "Devices", value: (r) => r.b.devices, number: true},
    {title: `A: ${c.a}`, value: (r) => r.a.samples_per_second ?? null, text: rate, number: true}, {title: `B: ${c.b}`, value: (r) => r.b.samples_per_second ?? null, text: rate, number: true},
    {title: "B over A", value: (r) => r.samples_per_second_ratio ?? null, text: times, number: true},
    {title: "90 % interval", value: (r) => r.samples_per_second_ratio_interval?.low ?? null, number: true, text: (v, r) => between(r.samples_per_second_ratio_interval && {...r.samples_per_second_ratio_interval, level: null}, figure) || kDash},
    {title: "Devices alone", value: (r) => r.only_devices_changed_ratio ?? null, text: times, number: true},
    {title: "Links and host alone", value: (r) => r.only_links_and_host_changed_ratio ?? null, text: times, number: true},
    {title: "A bound by", value: (r) => r.a.bottleneck ?? ""}, {title: "B bound by", value: (r) => r.b.bottleneck ?? ""}];
  const pair = (title, list, name) => {
    if (!list || !list.length) return null;
    const shown = list.slice(0, 10), most = Math.max(...shown.flatMap((x) => [x.a_seconds || 0, x.b_seconds || 0]), 1e-15);
    return barTable(title, shown.flatMap((x) => [["A", "a_seconds"], ["B", "b_seconds"]].map(([side, key], i) => ({label: i === 0 ? x[name] : make("span", {class: "unseen"}, `${x[name]}, B`), note: seconds(x[key]),
      parts: [{name: side === "A" ? `A: ${c.a}` : `B: ${c.b}`, share: (x[key] || 0) / most, text: seconds(x[key])}]}))), [[`A: ${c.a}`, "var(--c1)"], [`B: ${c.b}`, "var(--c2)"]],
    plainTable(title, ["What", "A", "B"], shown.map((x) => [x[name], seconds(x.a_seconds), seconds(x.b_seconds)]), [1, 2]));
  };
  const show = (r) => detail.replaceChildren(part(`In detail: ${label(r)}`, make("p", {}, r.why || ""), facts([["A", r.a.title], ["B", r.b.title]]),
    pair("What the lanes do in a step", r.lanes, "lane"), pair("Operations that differ most", (r.ops || []).map((o) => ({...o, op: `${o.op} (${o.lane})`})), "op")));
  const out = [make("p", {class: "what"}, `A is ${c.a}, B is ${c.b}.`),
    part("How many times as fast is B", known.length ? rangeChart("B's samples per second over A's, with 90 % intervals", known.slice(0, 60).map((r) => ({label: label(r), value: r.samples_per_second_ratio,
      low: r.samples_per_second_ratio_interval?.low, high: r.samples_per_second_ratio_interval?.high, tip: r.why || label(r)})), {x: "right of 1 B is faster", xText: (v) => figure(v), reference: 1},
    plainTable("B over A", ["Which", "Ratio", "90 % interval"], known.map((r) => [label(r), figure(r.samples_per_second_ratio), between(r.samples_per_second_ratio_interval && {...r.samples_per_second_ratio_interval, level: null}, figure)]), [1, 2])) :
      lacks("There is no ratio: a side does not hold the model.")),
    part("All of them", dataTable(columns, rows, {caption: "Comparisons; choose one to see it in detail", pick: show, picked: rows[0]})), detail];
  if (rows.length) show(rows[0]);
  return out;
}
