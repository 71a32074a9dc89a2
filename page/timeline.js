// SPDX-License-Identifier: Apache-2.0
// The timeline of a report: a row per lane, a box per operation; zooms with buttons, keys, wheel and by dragging.
"use strict";

const kWork = [["forward", "--forward"], ["backward", "--backward"], ["backward of weights", "--weights"],
  ["recomputation", "--again"], ["update", "--update"], ["averaging", "--average"], ["compression", "--compress"],
  ["communication", "--exposed"], ["input and copies", "--input"], ["server", "--server"], ["waiting", "--waiting"],
  ["other work", "--other-work"]];
const kBegins = [["forward", "forward"], ["loss", "forward"], ["backward-weights", "backward of weights"],
  ["backward", "backward"], ["again", "recomputation"], ["update", "update"], ["average", "averaging"],
  ["compress", "compression"], ["decompress", "compression"], ["orthogonalise", "compression"], ["copy", "input and copies"]];
const kMoving = ["comm", "reduce", "send", "recv"], kCopying = ["copy", "read", "decode", "offload", "reload"];
const kLaneOrder = ["compute", "comm", "reduce", "send", "recv", "copy", "offload", "reload", "read", "decode", "host"];

function workOf(e) {
  if (e.label.startsWith("waiting")) return "waiting";
  if (kMoving.includes(e.lane)) return "communication";
  if (kCopying.includes(e.lane)) return "input and copies";
  if (e.role !== "worker" && !e.role.startsWith("stage ")) return "server";
  const found = kBegins.find(([start]) => e.label.startsWith(start));
  return found ? found[1] : "other work";
}

function timelineRows(entries) {
  const rows = new Map();
  for (const e of entries) {
    const key = `${e.role}\n${e.instance}\n${e.lane}`;
    if (!rows.has(key)) rows.set(key, {role: e.role, instance: e.instance, lane: e.lane, entries: []});
    rows.get(key).entries.push({...e, work: workOf(e)});
  }
  const stage = (role) => role.startsWith("stage ") ? Number(role.slice(6)) : -1;
  const place = (r) => [stage(r.role), r.role === "worker" ? "" : r.role, r.instance, kLaneOrder.indexOf(r.lane) >>> 0];
  const out = [...rows.values()].sort((a, b) => {
    const p = place(a), q = place(b), i = p.findIndex((v, k) => v !== q[k]);
    return i < 0 ? 0 : p[i] < q[i] ? -1 : 1;
  });
  for (const row of out) row.entries.sort((a, b) => a.start - b.start);
  return out;
}

/** Boxes of a row within [from, to]; neighbours of one kind that are thinner than a pixel are one box. */
function boxesOf(row, from, to, pixels) {
  const out = [];
  for (const e of row.entries) {
    if (e.end <= from || e.start >= to) continue;
    const last = out[out.length - 1];
    if (last && last.work === e.work && (e.end - e.start) * pixels < 1.5 && (e.start - last.end) * pixels < 1) {
      last.end = Math.max(last.end, e.end);
      ++last.count;
    } else {
      out.push({start: e.start, end: e.end, work: e.work, label: e.label, iteration: e.iteration, count: 1});
    }
  }
  return out;
}

/** Of many workers the first four, of stages the first replica; without lanes on which a host or a receiver only waits. */
function mainRows(rows) {
  const stages = rows.some((r) => r.role.startsWith("stage "));
  const working = rows.filter((r) => !(stages && r.lane === "recv") && (r.lane !== "host" || r.entries.some((e) => e.label.startsWith("update"))));
  const first = (role, most) => [...new Set(working.filter((r) => r.role === role).map((r) => r.instance))].slice(0, most);
  const shown = working.filter((r) => first(r.role, stages ? 1 : 4).includes(r.instance));
  return shown.length ? shown : rows;
}

/** From the start to the end of the first step that is there, of all of these rows. */
function firstStep(rows) {
  let from = Infinity, to = -Infinity;
  const steps = new Map();
  for (const r of rows) {
    const who = `${r.role} ${r.instance}`;
    for (const e of r.entries) if (r.lane === "compute") steps.set(who, Math.min(steps.get(who) ?? Infinity, e.iteration));
  }
  for (const r of rows) {
    for (const e of r.entries) {
      if (!["compute", "comm", "reduce"].includes(r.lane) || e.iteration !== steps.get(`${r.role} ${r.instance}`)) continue;
      from = Math.min(from, e.start);
      to = Math.max(to, e.end);
    }
  }
  return {from, to};
}

function timeline(entries) {
  const every = timelineRows(entries), working = mainRows(every);
  const begin = Math.min(...entries.map((e) => e.start)), finish = Math.max(...entries.map((e) => e.end));
  const view = firstStep(working);
  if (!(view.to > view.from)) Object.assign(view, {from: begin, to: finish});
  const busy = working.filter((r) => r.entries.some((e) => e.start < view.to && e.end > view.from));
  const main = busy.length ? busy : working, zero = view.from;
  let rows = main, names = [];
  const picture = make("div", {class: "picture", tabindex: 0, role: "group",
    "aria-label": "Timeline. Plus and minus zoom, arrows move, 0 shows all. The operations are in the table below."});
  const kRow = 26, kTop = 26;
  const kinds = kWork.filter(([name]) => every.some((r) => r.entries.some((e) => e.work === name)));

  function set(from, to) {
    const least = (finish - begin) * 1e-5, span = Math.min(finish - begin, Math.max(least, to - from));
    view.from = Math.max(begin, Math.min(from, finish - span));
    view.to = view.from + span;
    paint();
  }
  const zoom = (factor, at = (view.from + view.to) / 2) => set(at - (at - view.from) * factor, at + (view.to - at) * factor);
  const move = (share) => set(view.from + share * (view.to - view.from), view.to + share * (view.to - view.from));

  let scale = null;
  function paint() {
    const width = Math.floor(picture.clientWidth);
    if (width < 50) return;
    names = rows.map((r) => `${r.role}${r.role.startsWith("stage ") && rows === main ? "" : ` ${r.instance}`} · ${r.lane}`);
    const left = width > 560 ? 150 : 92, height = kTop + rows.length * kRow + 26, pixels = (width - left - 8) / (view.to - view.from);
    const x = axis(view.from, view.to, left, width - 8);
    const since = (v) => seconds(Math.abs(v - zero) < 1e-12 ? 0 : v - zero);
    scale = {left, at: (px) => view.from + (px - left) / pixels};
    const svg = draw("svg", {width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": "Timeline"});
    for (const v of timeTicks(view.from - zero, view.to - zero, width / 110).map((t) => t + zero)) {
      svg.append(draw("line", {class: "grid", x1: x.at(v), x2: x.at(v), y1: kTop - 6, y2: height - 22}),
        draw("text", {class: "tick", x: Math.min(x.at(v), width - 22), y: height - 6, "text-anchor": "middle"}, since(v)));
    }
    rows.forEach((row, i) => {
      const y = kTop + i * kRow;
      const name = width > 560 ? names[i] : `${row.role[0]}${row.instance} ${row.lane}`;
      svg.append(draw("text", {class: "label", x: left - 8, y: y + 16, "text-anchor": "end"}, shortened(name, left - 10)));
      for (const b of boxesOf(row, view.from, view.to, pixels)) {
        const from = Math.max(left, x.at(b.start)), wide = Math.max(0.6, Math.min(width - 8, x.at(b.end)) - from);
        const many = b.count > 1 ? `\n${b.count} operations, too short to be told apart here` : "";
        const box = draw("g", {}, draw("rect", {class: "box", x: from, y: y + 2, width: wide, height: kRow - 6,
          style: {fill: `var(${kWork.find(([n]) => n === b.work)[1]})`}}));
        if (wide > 46 && b.count === 1) box.append(draw("text", {class: "boxed", x: from + 4, y: y + 16}, shortened(b.label, wide - 6)));
        svg.append(tip(box, `${b.label}\n${b.work}, step ${b.iteration}\n${seconds(b.end - b.start)}, from ${since(b.start)}${many}`));
      }
    });
    picture.replaceChildren(svg);
  }

  picture.addEventListener("keydown", (e) => {
    const does = {"+": () => zoom(0.6), "=": () => zoom(0.6), "-": () => zoom(1 / 0.6), "0": () => set(begin, finish),
      ArrowLeft: () => move(-0.2), ArrowRight: () => move(0.2)}[e.key];
    if (!does || e.ctrlKey || e.metaKey || e.altKey) return;
    e.preventDefault();
    does();
  });
  picture.addEventListener("wheel", (e) => {
    if (!e.ctrlKey && document.activeElement !== picture) return;  // else the page could not be scrolled past it
    e.preventDefault();
    zoom(e.deltaY > 0 ? 1.25 : 0.8, scale.at(e.clientX - picture.getBoundingClientRect().left));
  }, {passive: false});
  let drag = null;
  picture.addEventListener("pointerdown", (e) => {
    if (e.button !== 0 || !scale || e.pointerType === "touch") return;
    drag = {x: e.clientX, from: view.from, to: view.to};
  });
  addEventListener("pointermove", (e) => {
    if (!drag) return;
    const time = (drag.x - e.clientX) * (drag.to - drag.from) / (picture.clientWidth - scale.left - 8);
    if (Math.abs(drag.x - e.clientX) > 3) set(drag.from + time, drag.to + time);
  });
  addEventListener("pointerup", () => { drag = null; });
  new ResizeObserver(paint).observe(picture);

  const button = (name, text, does) => make("button", {type: "button", "aria-label": name, onclick: does}, text);
  const all = make("details", {class: "figures"}, make("summary", {}, "Operations"));
  all.addEventListener("toggle", () => {
    if (!all.open || all.children.length > 1) return;
    all.append(dataTable([
      {title: "Operation", value: (e) => e.label, wide: true}, {title: "Role", value: (e) => `${e.role} ${e.instance}`},
      {title: "Lane", value: (e) => e.lane}, {title: "Step", value: (e) => e.iteration, number: true},
      {title: "Start", value: (e) => e.start, text: seconds, number: true},
      {title: "End", value: (e) => e.end, text: seconds, number: true}], entries, {caption: "Operations of the timeline"}));
  });
  return make("figure", {}, make("figcaption", {}, "Timeline of a few workers and steps"),
    legendOf(kinds.map(([name, variable]) => [name, `var(${variable})`])),
    make("div", {class: "buttons"}, button("Zoom in", "+", () => zoom(0.6)), button("Zoom out", "−", () => zoom(1 / 0.6)),
      button("Earlier", "←", () => move(-0.4)), button("Later", "→", () => move(0.4)), button("Show the whole time", "All", () => set(begin, finish)),
      main.length < every.length ? make("label", {class: "choice"}, make("input", {type: "checkbox",
        onchange: (e) => { rows = e.target.checked ? every : main; paint(); }}), `all ${every.length} lanes`) : null,
      make("span", {class: "hint"}, "Drag to move; the wheel zooms once it is clicked.")),
    picture, all);
}
