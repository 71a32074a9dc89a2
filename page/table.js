// SPDX-License-Identifier: Apache-2.0
// Tables that sort and filter. Of long ones only the rows in view are in the page.
"use strict";

const kShort = 200;      // so many rows are all in the page
const kRowHeight = 34;   // pixels, of long tables
const kPrinted = 500;    // rows of a long table on paper

/**
 * columns: {title, value(row), text(value, row), number, node(row), wide}; `value` is compared and searched, `text` shown.
 * options: caption, sort (a column's index, or -1 - index for the other direction), pick(row) with `picked` (a row).
 */
function dataTable(columns, rows, options = {}) {
  const long = rows.length > kShort;
  const state = {rows, sort: null, down: false, first: -1, last: -1, texts: null, picked: options.picked};
  const count = make("p", {class: "count", "aria-live": "polite"});
  const body = make("tbody");
  const heads = columns.map((c, i) => {
    const button = make("button", {type: "button", onclick: () => sortBy(i)}, c.title);
    return make("th", {scope: "col", class: c.number ? "number" : null}, button);
  });
  const table = make("table", {class: long ? "data long" : "data", "aria-rowcount": rows.length + 1},
    make("caption", {class: "unseen"}, options.caption || "Table"),
    long ? make("colgroup", {}, columns.map((c) => make("col", {style: {width: `${widthOf(c, rows)}ch`}}))) : null,
    make("thead", {}, make("tr", {"aria-rowindex": 1}, heads)), body);
  const frame = make("div", {class: long ? "scroll tall" : "scroll", tabindex: 0, role: "region",
    "aria-label": options.caption || "Table", onscroll: () => long && show(false)}, table);

  function cell(column, row) {
    const value = column.value(row);
    const content = column.node ? column.node(row) : column.text ? column.text(value, row) : value ?? kDash;
    return make("td", {class: column.number ? "number" : column.wide === "long" ? "words many" : column.wide ? "words" : null,
      "data-value": value ?? null, title: long && typeof content === "string" ? content : null}, column.wide && !long ? breakable(content) : content);
  }

  function line(row, index) {
    const cells = columns.map((c) => cell(c, row));
    if (options.pick) {
      const button = make("button", {type: "button", class: "pick", onclick: () => pick(row)}, ...cells[0].childNodes);
      cells[0].append(button);
    }
    return make("tr", {"aria-rowindex": index + 2, class: row === state.picked ? "picked" : null,
      "aria-current": row === state.picked ? "true" : null, onclick: options.pick ? () => pick(row) : null}, cells);
  }

  function pick(row) {
    if (row === state.picked) return;
    state.picked = row;
    const held = document.activeElement && document.activeElement.classList.contains("pick");
    show(true);
    const button = body.querySelector("tr.picked .pick");
    if (held && button) button.focus({preventScroll: true});
    options.pick(row);
  }

  const gap = (height) => make("tr", {class: "gap", "aria-hidden": "true"},
    make("td", {colspan: columns.length, style: {height: `${height}px`}}));

  function show(again, all = false) {
    const total = state.rows.length;
    let first = 0, last = total;
    if (long && !all) {
      first = Math.max(0, Math.floor(frame.scrollTop / kRowHeight) - 10);
      last = Math.min(total, first + Math.ceil((frame.clientHeight || 500) / kRowHeight) + 20);
    } else if (all) {
      last = Math.min(total, kPrinted);
    }
    if (!again && first === state.first && last === state.last) return;
    state.first = first;
    state.last = last;
    const lines = state.rows.slice(first, last).map((row, i) => line(row, first + i));
    if (long && !all) {
      if (first > 0) lines.unshift(gap(first * kRowHeight));
      if (last < total) lines.push(gap((total - last) * kRowHeight));
    }
    if (total === 0) lines.push(make("tr", {}, make("td", {colspan: columns.length, class: "words"}, "No row has all of that.")));
    body.replaceChildren(...lines);
  }

  function order() {
    if (state.sort === null) return;
    const {value} = columns[state.sort];
    const sign = state.down ? -1 : 1;
    const keyed = state.rows.map((row) => [value(row), row]);
    keyed.sort(([a], [b]) => {
      if (a === b) return 0;
      if (a === null || a === undefined) return 1;  // what is not known comes last
      if (b === null || b === undefined) return -1;
      return sign * (isNumber(a) && isNumber(b) ? a - b : String(a).localeCompare(String(b), "en", {numeric: true}));
    });
    state.rows = keyed.map(([, row]) => row);
  }

  function mark() {
    heads.forEach((head, i) => {
      if (i === state.sort) head.setAttribute("aria-sort", state.down ? "descending" : "ascending");
      else head.removeAttribute("aria-sort");
    });
  }

  function sortBy(i) {
    state.down = state.sort === i ? !state.down : Boolean(columns[i].number);
    state.sort = i;
    order();
    mark();
    frame.scrollTop = 0;
    show(true);
  }

  function filter(text) {
    const wanted = readFilter(text, columns);
    readTexts();
    state.rows = rows.filter((row, i) => wanted(row, state.texts[i]));
    order();
    frame.scrollTop = 0;
    show(true);
    tell();
  }

  const readTexts = () => { state.texts ||= rows.map((row) => columns.map((c) => c.value(row) ?? "").join("\n").toLowerCase()); };

  function tell() {
    count.textContent = state.rows.length === rows.length ? plural(rows.length, "row") :
      `${figure(state.rows.length)} of ${plural(rows.length, "row")}`;
  }

  const out = make("div", {class: "table"});
  if (rows.length > 5) {
    const id = newId("filter"), hint = newId("hint");
    const input = make("input", {type: "search", id, autocomplete: "off", spellcheck: "false", "aria-describedby": hint,
      oninput: () => filter(input.value)});
    const number = columns.find((c) => c.number);
    out.append(make("div", {class: "filter"}, make("label", {for: id}, "Filter"), input, count,
      make("p", {class: "hint", id: hint}, "Words that a row must have",
        number ? [", or figures, such as ", make("code", {}, `${bare(number.title)}>8`)] : "")));
  }
  out.append(frame);
  if (options.sort !== undefined) {
    state.sort = options.sort < 0 ? -1 - options.sort : options.sort;
    state.down = options.sort < 0;
    order();
    mark();
  }
  tell();
  show(true);
  if (long) {
    requestIdleCallback(readTexts);
    new ResizeObserver(() => show(false)).observe(frame);
    addEventListener("beforeprint", () => show(true, true));
    addEventListener("afterprint", () => show(true));
    out.append(make("p", {class: "onpaper"}, `On paper the first ${figure(kPrinted)} rows.`));
  }
  return out;
}

/** A column's name as a filter takes it. */
const bare = (title) => title.toLowerCase().replace(/[^a-z0-9]/g, "");

/** "dgx devices>=8" as a test of a row and its text. */
function readFilter(text, columns) {
  const tests = text.toLowerCase().split(/\s+/).filter(Boolean).map((term) => {
    const [, name, sign, number] = /^([a-z][^<>=]*)(>=|<=|>|<|=)(-?[\d.,e+]+)$/.exec(term) || [];
    const column = name && (columns.find((c) => bare(c.title) === bare(name)) || columns.find((c) => bare(c.title).startsWith(bare(name))));
    if (!column) return (row, all) => all.includes(term);
    const bound = Number(number.replace(/,/g, ""));
    return (row) => {
      const v = column.value(row);
      return isNumber(v) && (sign === ">" ? v > bound : sign === "<" ? v < bound : sign === ">=" ? v >= bound :
        sign === "<=" ? v <= bound : v === bound);
    };
  });
  return (row, all) => tests.every((test) => test(row, all));
}

/** In letters, by its title and the first rows. */
function widthOf(column, rows) {
  const longest = rows.slice(0, 50).reduce((most, row) => {
    const v = column.value(row);
    return Math.max(most, String(column.text ? column.text(v, row) : v ?? "").length);
  }, column.title.length + 2);
  return Math.min(40, longest + 3);
}

/** A small table as it is: heads, and rows of texts; of `numbers` are columns of figures. */
function plainTable(caption, heads, rows, numbers = []) {
  const kind = (i) => numbers.includes(i) ? "number" : null;
  return make("div", {class: "scroll", tabindex: 0, role: "region", "aria-label": caption},
    make("table", {class: "data"}, make("caption", {class: "unseen"}, caption),
      make("thead", {}, make("tr", {}, heads.map((h, i) => make("th", {scope: "col", class: kind(i)}, h)))),
      make("tbody", {}, rows.map((row) => make("tr", {}, row.map((c, i) =>
        make(i === 0 ? "th" : "td", {scope: i === 0 ? "row" : null, class: kind(i)}, c)))))));
}
