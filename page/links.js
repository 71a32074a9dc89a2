// SPDX-License-Identifier: Apache-2.0
// The map of a machine's links: devices and switches in rows by kind, links coloured by how busy they are.
"use strict";

// From the top: the network, a node's way to it, its hosts, switches, devices.
const kRows = ["spine", "core", "network", "leaf", "port", "nic", "mem", "cpu", "plx"];
const kBelow = ["nvswitch", "nvs", "switch"];

const stem = (name) => name.slice(name.lastIndexOf("/") + 1).replace(/[0-9*.]+$/, "");
const nodeOf = (name) => name.includes("/") ? name.slice(0, name.indexOf("/")) : "";

function rowOf(name) {
  const s = stem(name), above = kRows.indexOf(s);
  return above >= 0 ? above : kBelow.includes(s) ? 101 : 100;
}

/** {from, to, busy, links, name} of what a report says about links; of storage and cores nothing. */
function linkEnds(report) {
  const list = (report.link_groups && report.link_groups.length ? report.link_groups : report.links) || [];
  return list.filter((l) => l.name.includes(">")).map((l) => {
    const [from, to] = l.name.split(">");
    const full = to.includes("/") || !from.includes("/") || /^(leaf|spine|core|network)/.test(to) ? to : `${nodeOf(from)}/${to}`;
    return {from, to: full, name: l.name, busy: isNumber(l.busy) ? l.busy : l.busy_max, links: l.links || 1};
  });
}

/** Vertices of the busiest node and of the network, if all nodes are too many to draw. */
function drawnEnds(ends) {
  const names = new Set(ends.flatMap((e) => [e.from, e.to]));
  if (names.size <= 44) return {ends, only: ""};
  const busiest = ends.filter((e) => nodeOf(e.from) || nodeOf(e.to)).reduce((a, b) => b.busy > a.busy ? b : a, {busy: -1, from: "", to: ""});
  const node = nodeOf(busiest.from) || nodeOf(busiest.to);
  const kept = ends.filter((e) => [e.from, e.to].every((n) => nodeOf(n) === node) ||
    [e.from, e.to].some((n) => nodeOf(n) === node) && [e.from, e.to].some((n) => nodeOf(n) === ""));
  const shown = new Set(kept.flatMap((e) => [e.from, e.to]));
  return shown.size <= 60 && node ? {ends: kept, only: node} : {ends: [], only: ""};
}

const kHeat = [0, 0.05, 0.25, 0.5, 0.75];
const heat = (busy) => `var(--heat${kHeat.filter((h) => busy >= h).length})`;

function linkMap(report) {
  const all = linkEnds(report);
  if (!all.length) return null;
  const {ends, only} = drawnEnds(all);
  const title = `Links: share of the time that each is in use${only ? `, of ${only} and what it is joined to` : ""}`;
  const list = (report.link_groups && report.link_groups.length ? report.link_groups : report.links);
  const table = list === report.link_groups ?
    dataTable([{title: "Links", value: (l) => l.name}, {title: "How many", value: (l) => l.links, number: true},
      {title: "Busy, mean", value: (l) => l.busy_mean, text: percent, number: true},
      {title: "Busy, most", value: (l) => l.busy_max, text: percent, number: true},
      {title: "Bytes", value: (l) => l.bytes, text: bytes, number: true}], list, {caption: "Links by place", sort: -4}) :
    dataTable([{title: "Link", value: (l) => l.name}, {title: "Busy", value: (l) => l.busy, text: percent, number: true},
      {title: "Bytes", value: (l) => l.bytes, text: bytes, number: true}], list, {caption: "Links", sort: -2});
  if (!ends.length) return make("figure", {}, make("figcaption", {}, "Links: share of the time that each is in use"), table);
  const names = [...new Set(ends.flatMap((e) => [e.from, e.to]))];
  const rows = [...new Set(names.map(rowOf))].sort((a, b) => a - b).map((r) => names.filter((n) => rowOf(n) === r)
    .sort((a, b) => a.localeCompare(b, "en", {numeric: true})));
  const cables = new Map();
  for (const e of ends) {
    const key = [e.from, e.to].sort().join(">");
    if (!cables.has(key)) cables.set(key, {a: e.from, b: e.to, busy: 0, text: []});
    const c = cables.get(key);
    c.busy = Math.max(c.busy, e.busy);
    c.text.push(`${e.name}: ${percent(e.busy)}${e.links > 1 ? ` (most of ${e.links})` : ""}`);
  }
  const legend = legendOf(kHeat.map((h, i) => [i === 0 ? `below ${percent(kHeat[1])}` : `from ${percent(h)}`, `var(--heat${i + 1})`, "line"]));
  return chart(title, (width) => {
    const place = (row, n) => (row.indexOf(n) + 0.5) * width / row.length;
    const reach = (row, c) => 40 + 90 * Math.abs(place(row, c.a) - place(row, c.b)) / width;  // of an arc between equals
    const inner = rows.map((row) => Math.max(0, ...[...cables.values()].filter((c) => row.includes(c.a) && row.includes(c.b))
      .map((c) => reach(row, c) / 2 - 6)));
    const tops = [];
    let height = 24;
    rows.forEach((row, i) => { tops.push(height); height += 74 + inner[i]; });
    height -= 46;
    const svg = draw("svg", {width, height, viewBox: `0 0 ${width} ${height}`});
    const at = new Map(), each = new Map();
    rows.forEach((row, i) => row.forEach((n) => {
      at.set(n, {x: place(row, n), y: tops[i], row: i});
      each.set(n, width / row.length);
    }));
    const line = draw("g");
    for (const c of [...cables.values()].sort((a, b) => a.busy - b.busy)) {
      const a = at.get(c.a), b = at.get(c.b);
      const d = a.row !== b.row ? `M${a.x} ${a.y}L${b.x} ${b.y}` :
        `M${a.x} ${a.y}Q${(a.x + b.x) / 2} ${a.y + reach(rows[a.row], c)} ${b.x} ${b.y}`;
      line.append(tip(draw("g", {}, draw("path", {class: "cable", d, style: {stroke: heat(c.busy), strokeWidth: 2 + 5 * Math.min(1, c.busy)}}),
        draw("path", {class: "reach", d})), c.text.join("\n")));
    }
    svg.append(line);
    for (const [n, p] of at) {
      const text = n.slice(n.lastIndexOf("/") + 1), wide = Math.min(each.get(n) - 3, Math.max(30, text.length * 7.2 + 10));
      const small = wide < text.length * 7;
      svg.append(draw("rect", {class: "vertex", x: p.x - wide / 2, y: p.y - 12, width: wide, height: 24, rx: 5}),
        draw("text", {class: small ? "in small" : "in", x: p.x, y: p.y + 4, "text-anchor": "middle"}, small ? text.replace(/^.*?(\d*)$/, (m, d) => text[0] + d) : text));
    }
    return svg;
  }, table, legend);
}
