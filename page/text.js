// SPDX-License-Identifier: Apache-2.0
// Nodes of the page and figures as text. Figures come from documents; here they only get their units.
"use strict";

const SVG = "http://www.w3.org/2000/svg";

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "style") Object.assign(element.style, value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat(3).filter((c) => c !== null && c !== undefined && c !== false));
  return element;
}

/** An element: attributes by name, "onclick" and the like as functions, children as nodes or text. */
const make = (tag, attributes = {}, ...children) => fill(document.createElement(tag), attributes, children);
/** The same for what is drawn. */
const draw = (tag, attributes = {}, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);

let lastId = 0;
const newId = (stem) => `${stem}-${++lastId}`;

/** Tells those who cannot see the page. */
const say = (text) => { document.getElementById("said").textContent = text; };

const isNumber = (v) => typeof v === "number" && Number.isFinite(v);
const kDash = "–";

const kWhole = new Intl.NumberFormat("en-US", {maximumFractionDigits: 0});
const kDigits = [1, 2, 3, 4].map((d) => [new Intl.NumberFormat("en-US", {maximumSignificantDigits: d}),
  new Intl.NumberFormat("en-US", {maximumSignificantDigits: d, minimumSignificantDigits: d})]);
const kDecimals = [0, 1, 2].map((d) => new Intl.NumberFormat("en-US", {minimumFractionDigits: d, maximumFractionDigits: d}));

/** 2,280, 0.956 or 8: whole from a thousand on, else with so many digits. */
function figure(v, digits = 3) {
  if (!isNumber(v)) return kDash;
  const size = Math.abs(v);
  return size >= 1000 && size < 1e15 ? kWhole.format(v) : size !== 0 && size < 1e-4 ? v.toExponential(1) :
    kDigits[digits - 1][Math.abs(v - Math.round(v)) <= 1e-9 * size ? 0 : 1].format(v);
}

/** 94.8 %, 5.36 %, 100 %. */
function percent(v) {
  if (!isNumber(v)) return kDash;
  const p = 100 * v, size = Math.abs(p), whole = Math.abs(p - Math.round(p)) < 1e-9;
  return size > 0 && size < 0.005 ? "< 0.01 %" : `${kDecimals[whole || size > 100 ? 0 : size >= 10 ? 1 : 2].format(p)} %`;
}

/** In the largest of these units of which there is one. */
function inUnits(v, units, digits = 3) {
  if (!isNumber(v)) return kDash;
  const [scale, name] = units.find(([s]) => Math.abs(v) >= s * 0.9995) || units[units.length - 1];
  return `${figure(v / scale, digits)} ${name}`;
}

const kTimes = [[86400 * 1.9999, "days", 86400], [3600, "h"], [60, "min"], [1, "s"], [1e-3, "ms"], [1e-6, "µs"], [1e-9, "ns"]];
function seconds(v) {
  if (!isNumber(v)) return kDash;
  if (v === 0) return "0 s";
  const unit = kTimes.find(([s]) => Math.abs(v) >= s) || kTimes[kTimes.length - 1];
  return `${figure(v / (unit[2] || unit[0]))} ${unit[1]}`;
}
const kTimeSteps = [1e-9, 1e-6, 1e-3].flatMap((u) => [1, 2, 5, 10, 20, 50, 100, 200, 500].map((m) => m * u))
  .concat([1, 2, 5, 10, 15, 30], [1, 2, 5, 10, 15, 30].map((m) => 60 * m), [1, 2, 3, 6, 12].map((h) => 3600 * h),
    [1, 2, 4, 7, 14, 30, 60, 120, 240, 500, 1000, 2000, 5000, 10000].map((d) => 86400 * d));
const bytes = (v) => v === 0 ? "0 B" : inUnits(v, [[2 ** 40, "TiB"], [2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"], [1, "B"]]);
/** "7.25 of 15.8 GiB". */
function ofBytes(v, most) {
  const [a, b] = [bytes(v).split(" "), bytes(most).split(" ")];
  return a[1] === b[1] ? `${a[0]} of ${b[0]} ${b[1]}` : `${a.join(" ")} of ${b.join(" ")}`;
}
const bytesPerSecond = (v) => inUnits(v, [[1e12, "TB/s"], [1e9, "GB/s"], [1e6, "MB/s"], [1e3, "kB/s"], [1, "B/s"]]);
const watts = (v) => inUnits(v, [[1e6, "MW"], [1e3, "kW"], [1, "W"]]);
const joules = (v) => inUnits(isNumber(v) ? v / 3.6e6 : v, [[1e6, "GWh"], [1e3, "MWh"], [1, "kWh"], [1e-3, "Wh"]]);
const dollars = (v) => isNumber(v) ? `${v >= 1000 ? kWhole.format(v) : figure(v)} USD` : kDash;
const amount = (v) => Math.abs(v) >= 1e6 ? inUnits(v, [[1e12, "trillion"], [1e9, "billion"], [1e6, "million"]]) : figure(v);
const times = (v) => isNumber(v) ? `${figure(v)} ×` : kDash;
const rate = (v) => figure(v, 4);

/** "1,910 to 2,720 (90 %)" of {low, high, level}. */
function between(interval, text = rate) {
  if (!interval || !isNumber(interval.low)) return "";
  return `${text(interval.low)} to ${text(interval.high)}${isNumber(interval.level) ? ` (${percent(interval.level)})` : ""}`;
}

const plural = (n, word) => `${figure(n)} ${word}${n === 1 ? "" : "s"}`;

/** A command with a button that copies it. */
function command(text, what = "Command") {
  const code = make("code", {tabindex: 0, role: "group", "aria-label": what}, text);
  const copy = make("button", {type: "button", class: "copy", onclick: () => copyText(text, code, copy)}, "Copy");
  return make("div", {class: "command"}, code, copy);
}

async function copyText(text, shown, button) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {  // without the right to: select it and copy as by hand
    getSelection().selectAllChildren(shown);
    document.execCommand("copy");
  }
  const before = button.textContent;
  button.textContent = "Copied";
  say("Copied");
  setTimeout(() => { button.textContent = before; }, 1500);
}

/** Text that may be broken after commas, colons and slashes. */
const breakable = (text) => String(text).split(/(?<=[,:/_])(?=[^ ])/).flatMap((piece, i) => i ? [make("wbr"), piece] : [piece]);

/** Names with values, those that are null left out. */
function facts(pairs) {
  return make("dl", {class: "facts"}, pairs.filter(([, v]) => v !== null && v !== undefined && v !== "" && v !== kDash)
    .map(([name, v]) => make("div", {}, make("dt", {}, name), make("dd", {}, typeof v === "string" ? breakable(v) : v))));
}

/** The figures that a reader sees first: [name, figure, remark]. */
function cards(list) {
  return make("ul", {class: "cards"}, list.filter(Boolean).map(([name, value, remark, mood]) =>
    make("li", {class: mood || null}, make("span", {class: "name"}, name), make("strong", {}, breakable(value)),
      remark ? make("span", {class: "remark"}, remark) : null)));
}

const bullets = (texts) => texts && texts.length ? make("ul", {class: "plain"}, texts.map((t) => make("li", {}, t))) : null;

/** A part of the page with a heading; nothing if none of its children is. */
function part(title, ...children) {
  const shown = children.flat().filter(Boolean);
  return shown.length ? make("section", {class: "part"}, make("h3", {}, title), shown) : null;
}

/** What a document does not have, and what would add it. */
const lacks = (text) => make("p", {class: "lacks"}, text);
