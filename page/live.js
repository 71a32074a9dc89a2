// SPDX-License-Identifier: Apache-2.0
// The live page: a question in a form, its answer from the server as it changes. The address holds the question.
"use strict";

const kWait = 150;  // milliseconds without a change before it is asked
const kTargets = ["epochs", "tokens", "samples", "target-loss"];
const kOfForm = ["model", "system", "scheme", "precision", "batch", "devices", "node-mtbf", ...kTargets];

/** A question: options by name, each a list of texts; price in USD; the document of an imported machine. */
const emptyState = () => ({options: {}, price: "", machine: null});

function stateOf(query) {
  const state = emptyState();
  for (const [key, value] of new URLSearchParams(query)) {
    if (key === "price") state.price = value;
    else if (key === "machine") { try { state.machine = JSON.parse(value); } catch { /* is then not there */ } }
    else if (key !== "pin" && key !== "token" && value !== "") (state.options[key] ||= []).push(value);
  }
  return state;
}

function queryOf(state) {
  const query = new URLSearchParams();
  for (const [key, values] of Object.entries(state.options)) for (const v of values) query.append(key, v);
  if (state.price) query.set("price", state.price);
  if (state.machine) query.set("machine", JSON.stringify(state.machine));
  return query.toString();
}

/** "12.5GB/s" times a factor, in its unit. */
function scaled(text, factor) {
  const [, number, unit] = /^([\d.]+)(.*)$/.exec(text) || [];
  return number ? `${Number((Number(number) * factor).toPrecision(4))}${unit}` : text;
}

/** What can be moved: {path, name, bandwidth} of a machine's document. */
function linksOf(machine) {
  const out = Object.entries(machine.links || {}).filter(([, l]) => typeof l.bandwidth === "string")
    .map(([name, l]) => ({path: `links.${name}.bandwidth`, name, bandwidth: l.bandwidth}));
  for (const [key, v] of Object.entries(machine.network || {}))
    if (typeof v === "string" && /(B|bit)\/s$/.test(v)) out.push({path: `network.${key}`, name: `network ${key.replace(/_/g, " ")}`, bandwidth: v});
  return out;
}

class Live {
  constructor(page, choices, token) {
    this.page = page;
    this.choices = choices;
    this.token = token;
    this.state = stateOf(location.search);
    this.pinned = new URLSearchParams(location.search).get("pin");
    if (!Object.keys(this.state.options).length)
      this.state = stateOf("model=resnet50&system=dgx1-v100&scheme=pytorch-ddp&batch=64");
    this.asking = 0;
    this.machines = new Map();
    this.fields = new Map();
    this.results = make("div", {class: "results"});
    this.status = make("p", {class: "status", role: "status"});
    this.links = make("div");
    this.more = make("div");
    this.given = make("ul", {class: "options", "aria-label": "Other options that are given"});
    this.form = this.build();
    this.read();
  }

  // The server.
  async fetchJson(path, body) {
    const headers = this.token ? {Authorization: `Bearer ${this.token}`} : {};
    if (body !== undefined) headers["Content-Type"] = "application/json";
    const response = await fetch(path, {method: body === undefined ? "GET" : "POST", headers, body: body === undefined ? undefined : JSON.stringify(body)});
    const found = await response.json();
    if (found.error) throw new Error(found.error);
    return found;
  }

  question(state) {
    const out = {schema: "tandem-question-1"};
    for (const [key, values] of Object.entries(state.options)) {
      const option = this.choices.options.find((o) => o.name === key);
      out[key] = option && !option.value ? values[0] !== "false" : option && option.repeatable ? values : values[values.length - 1];
    }
    if (state.machine) out.system = state.machine;
    return out;
  }

  answer(state) {
    const query = state.price ? `?price=${encodeURIComponent(state.price)}` : "";
    return this.fetchJson(`/answer${query}`, this.question(state));
  }

  // What the form has.
  value(name) { return (this.state.options[name] || [""])[0]; }
  put(name, value) {
    if (value === "") delete this.state.options[name];
    else this.state.options[name] = [value];
  }
  setting(path) { return (this.state.options.set || []).find((s) => s.startsWith(`${path}=`))?.slice(path.length + 1) ?? ""; }
  putSetting(path, value) {
    const others = (this.state.options.set || []).filter((s) => !s.startsWith(`${path}=`));
    if (value !== "") others.push(`${path}=${value}`);
    if (others.length) this.state.options.set = others;
    else delete this.state.options.set;
  }

  changed() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.ask(), kWait);
  }

  field(label, name, attributes = {}, get = () => this.value(name), put = (v) => this.put(name, v)) {
    const id = newId("field");
    const input = make(attributes.choices ? "select" : "input", {id, name, autocomplete: "off", spellcheck: "false", ...attributes, choices: null,
      oninput: () => { put(input.value.trim()); this.changed(); }},
    (attributes.choices || []).map(([v, text]) => make("option", {value: v}, text)));
    this.fields.set(name, {input, get});
    return make("div", {class: "field"}, make("label", {for: id}, label), input);
  }

  list(name, entries) {
    const id = newId("list");
    return {id, node: make("datalist", {id}, entries.map((e) => make("option", {value: e.name}, e.summary || "")))};
  }

  build() {
    const models = this.list("models", this.choices.models), systems = this.list("systems", this.choices.systems), schemes = this.list("schemes", this.choices.schemes);
    const target = this.field("Train for", "target", {choices: [["", "no target"], ...kTargets.map((t) => [t, t])]},
      () => kTargets.find((t) => this.value(t)) || "", (kind) => { const v = this.fields.get("amount").input.value.trim(); kTargets.forEach((t) => this.put(t, "")); if (kind) this.put(kind, v || "1"); this.read(); });
    const amount = this.field("How much", "amount", {placeholder: "90, 1e10"}, () => this.value(kTargets.find((t) => this.value(t)) || ""),
      (v) => { const kind = this.fields.get("target").input.value; if (kind) this.put(kind, v); });
    this.system = this.field("Machine", "system", {list: systems.id}, () => this.state.machine ? this.state.machine.name || "imported" : this.value("system"),
      (v) => { this.state.machine = null; this.put("system", v); Object.keys(this.state.options).includes("set") && delete this.state.options.set; this.showLinks(); });
    return make("form", {class: "form", "aria-label": "The question", onsubmit: (e) => { e.preventDefault(); this.ask(); }}, models.node, systems.node, schemes.node,
      make("div", {class: "buttons"}, make("button", {type: "button", class: "pin", onclick: () => this.pin()}, "Pin"),
        make("button", {type: "button", class: "share", onclick: (e) => this.share(e.target)}, "Copy address")), this.status,
      make("fieldset", {}, make("legend", {}, "What is trained, and how"),
        this.field("Model", "model", {list: models.id}), this.field("Scheme", "scheme", {list: schemes.id, placeholder: "allreduce"}),
        this.field("Precision", "precision", {choices: [["", "default"], ...this.choices.precisions.map((p) => [p, p])]}),
        this.field("Samples per device", "batch", {type: "number", min: 1, placeholder: "32"})),
      make("fieldset", {}, make("legend", {}, "On what"), this.system,
        this.field("Nodes", "nodes", {type: "number", min: 1}, () => this.setting("nodes"), (v) => this.putSetting("nodes", v)),
        this.field("Devices", "devices", {placeholder: "1,2,4 … all"}), this.importer()),
      make("fieldset", {}, make("legend", {}, "Bandwidth of the links"), this.links),
      make("fieldset", {}, make("legend", {}, "Failures, price, target"),
        this.field("A node fails every", "node-mtbf", {placeholder: "2000h"}),
        this.field("USD per device and hour", "price", {type: "number", min: 0, step: "any"}, () => this.state.price, (v) => { this.state.price = v; }), target, amount),
      make("details", {class: "import"}, make("summary", {}, "Any other option"), this.more), this.given);
  }

  importer() {
    const text = make("textarea", {id: newId("dump"), rows: 6, spellcheck: "false"}), device = make("input", {id: newId("device"), placeholder: "h100-sxm"});
    const said = make("p", {class: "hint", role: "status"});
    const take = async () => {
      try {
        const found = await this.fetchJson("/import", {text: text.value, ...(device.value.trim() ? {device: device.value.trim()} : {})});
        this.state.machine = found.system;
        this.put("system", "");
        this.putSetting("nodes", "");
        said.textContent = `Imported. ${found.notes.join(" ")}`;
        this.read();
        this.ask();
      } catch (error) {
        said.textContent = error.message;
      }
    };
    return make("details", {class: "import"}, make("summary", {}, "Import a machine"),
      make("label", {for: text.id}, "Paste what nvidia-smi topo -m prints"), text,
      make("label", {for: device.id}, "Its devices, if the text does not say"), device,
      make("button", {type: "button", class: "button", onclick: take}, "Import"), said);
  }

  async machine() {
    if (this.state.machine) return this.state.machine;
    const name = this.value("system");
    if (!this.machines.has(name)) this.machines.set(name, await this.fetchJson(`/system?name=${encodeURIComponent(name)}`));
    return this.machines.get(name);
  }

  async showLinks() {
    let links = [];
    try { links = linksOf(await this.machine()); } catch { /* the answer says what is wrong with the name */ }
    this.links.replaceChildren(...links.map((link) => {
      const id = newId("link"), now = this.setting(link.path) || link.bandwidth;
      const shown = make("output", {for: id}, now);
      const at = Math.log2(parseFloat(now) / parseFloat(link.bandwidth));
      const range = make("input", {type: "range", id, name: link.path, min: -4, max: 4, step: 0.25, "aria-valuetext": now, oninput: () => {
        const moved = range.value === "0" ? "" : scaled(link.bandwidth, 2 ** Number(range.value));
        shown.textContent = moved || link.bandwidth;
        range.setAttribute("aria-valuetext", shown.textContent);
        this.putSetting(link.path, moved);
        this.changed();
      }});
      range.value = String(Number.isFinite(at) ? at : 0);
      return make("div", {class: "field"}, make("label", {for: id}, link.name), range, shown);
    }), ...(links.length ? [] : [make("p", {class: "hint"}, "none")]));
  }

  showMore() {
    const rows = Object.entries(this.state.options).flatMap(([name, values]) => kOfForm.includes(name) ? [] : values
      .filter((v) => name !== "set" || !/^nodes=|\.bandwidth=/.test(v)).map((v) => make("li", {}, make("code", {}, `--${name} ${v}`),
        make("button", {type: "button", class: "button", "aria-label": `Remove --${name} ${v}`, onclick: () => {
          this.state.options[name] = this.state.options[name].filter((x) => x !== v);
          if (!this.state.options[name].length) delete this.state.options[name];
          this.showMore();
          this.ask();
        }}, "×"))));
    const choice = make("select", {id: newId("more"), onchange: () => help()}, this.choices.options.filter((o) => !kOfForm.includes(o.name) && !["data", "collective-profile"].includes(o.name)).map((o) => make("option", {value: o.name}, o.name)));
    const text = make("input", {id: newId("value"), autocomplete: "off"}), hint = make("p", {class: "hint"});
    const help = () => { const o = this.choices.options.find((x) => x.name === choice.value); hint.textContent = o.help; text.placeholder = o.value || "(a switch)"; };
    choice.value = "recompute";
    help();
    this.given.replaceChildren(...rows);
    this.more.replaceChildren(make("label", {for: choice.id}, "Option"), choice, make("label", {for: text.id}, "Value"), text, hint,
      make("button", {type: "button", class: "button", onclick: () => {
        const option = this.choices.options.find((o) => o.name === choice.value), v = option.value ? text.value.trim() : "true";
        if (!v) return;
        this.state.options[option.name] = option.repeatable ? [...(this.state.options[option.name] || []), v] : [v];
        this.showMore();
        this.ask();
      }}, "Add"));
  }

  /** The state into the form. */
  read() {
    for (const {input, get} of this.fields.values()) input.value = get();
    this.showLinks();
    this.showMore();
  }

  address() {
    const query = queryOf(this.state);
    return `${location.pathname}?${query}${this.pinned !== null ? `&pin=${encodeURIComponent(this.pinned)}` : ""}`;
  }

  pin() {
    this.pinned = this.pinned === null ? queryOf(this.state) : null;
    this.ask();
  }

  share(button) { copyText(new URL(this.address(), location.href).href, this.status, button); }

  async ask() {
    const turn = ++this.asking;
    history.replaceState(null, "", this.address());
    this.form.querySelector(".pin").textContent = this.pinned === null ? "Pin" : "Unpin";
    this.results.setAttribute("aria-busy", "true");
    this.status.textContent = "…";
    const started = performance.now();
    const parts = [["now", this.state]];
    if (this.pinned !== null) parts.unshift(["pinned", stateOf(this.pinned)]);
    const found = await Promise.all(parts.map(([name, state]) => this.answer(state).then((answer) => ({name, state, answer}), (error) => ({name, state, error}))));
    if (turn !== this.asking) return;  // a later question is under way
    this.results.removeAttribute("aria-busy");
    const wrong = found.filter((f) => f.error), right = found.filter((f) => f.answer);
    this.status.textContent = wrong.length ? wrong.map((f) => f.error.message).join("\n") : `Answered in ${seconds((performance.now() - started) / 1000)}.`;
    this.status.classList.toggle("bad", wrong.length > 0);
    if (wrong.some((f) => f.name === "now")) { this.results.classList.add("old"); return; }
    this.results.classList.remove("old");
    const height = this.results.offsetHeight;
    this.results.style.minHeight = `${height}px`;  // the page does not jump while it is drawn again
    const documents = right.map((f) => ({file: f.name, document: f.answer.document, commands: f.answer.document.reports.map(() => f.answer.command), costs: f.answer.costs}));
    this.results.replaceChildren(...chaptersOf(documents).map((c) => c.content), ...this.machineFile());
    requestAnimationFrame(() => { this.results.style.minHeight = ""; });
  }

  machineFile() {
    if (!this.state.machine) return [];
    const text = JSON.stringify(this.state.machine, null, 2);
    return [part("The machine as a file", make("p", {}, `The command above names ${this.state.machine.name || "imported"}.json: this text.`),
      make("details", {class: "figures"}, make("summary", {}, "The file"), command(text, "The machine as a file")))];
  }
}

async function startLive({version}) {
  const given = new URLSearchParams(location.search).get("token");
  if (given) sessionStorage.setItem("token", given);
  const token = given || sessionStorage.getItem("token") || "", main = document.getElementById("main");
  document.getElementById("made").textContent = `Tandem ${version}, served by this machine.`;
  document.body.classList.add("live");
  try {
    const choices = await (await fetch("/options", {headers: token ? {Authorization: `Bearer ${token}`} : {}})).json();
    if (choices.error) throw new Error(choices.error);
    const live = new Live(main, choices, token);
    main.replaceChildren(live.form, live.results);
    await live.ask();
    performance.mark("answered");
  } catch (error) {
    main.replaceChildren(make("p", {class: "lacks bad"}, `The page cannot ask: ${error.message}`));
  }
}
