// All heads as a grid of thumbnails, layers × heads, with the role of each head; the visitor can choose any mix of heads.

import {getFloats, headName, headOf, headsOf, kindsOf, query} from "./api.js";
import {colourTable} from "./colour.js";
import {asPercent, button, make, roving, themeNow} from "./ui.js";

const KIND_NAMES = {encoder: "Encoder", cross: "Cross", decoder: "Decoder"};

const KIND_HINTS = {
  encoder: "Words of the source look at each other: the encoder.",
  cross: "Each written word looks at the source: cross-attention.",
  decoder: "Each written word looks at the ones before it: the decoder.",
  own: "The words of the text look at each other.",
  before: "Each word looks at itself and the words before it.",
};

/** What looks at what in a kind of attention. */
export function hintOf(reading, kind) {
  const alone = kind === "decoder" ? "before" : "own";
  return KIND_HINTS[reading.sides.target ? kind : alone];
}
const LARGEST = 48; // cells of a thumbnail on a side

/** The panel of heads in `root`; `point(name or null)` is called when a head is pointed at. */
export function openHeads(root, app, point) {
  const switcher = make("div");
  const presets = make("div", {class: "pills presets", role: "group", "aria-label": "Choose heads"});
  const grid = make("div", {class: "grid", role: "group", "aria-label": "Heads"});
  const said = make("p", {class: "quiet head-said"});
  const hint = make("p", {class: "quiet"});
  const definitions = make("dl");
  const summary = make("summary", {}, "What do the names of heads mean?");
  const meanings = make("details", {class: "meaning quiet"}, summary, definitions);
  root.append(make("h2", {}, "Heads"), switcher, hint, presets, grid, said, meanings);
  const fetched = new Map(); // promises of the numbers behind thumbnails, by their address
  let buttons = [];
  let across = 1;
  let shown = ""; // the kind of attention whose heads are listed: the chosen kind, or that of the word under the pointer
  const stops = roving(grid, () => buttons, () => across);
  grid.addEventListener("pointerleave", () => point(null));
  grid.addEventListener("focusout", event => grid.contains(event.relatedTarget) || (point(null), say(null)));

  function chosen(kind) {
    const all = headsOf(app.reading, kind);
    const names = app.state.heads[kind];
    return names ? all.filter(name => names.includes(name)) : all;
  }

  function choose(kind, names) {
    const all = headsOf(app.reading, kind);
    const rest = {...app.state.heads};
    delete rest[kind];
    const same = names && names.length === all.length;
    app.change({heads: names && !same ? {...rest, [kind]: names} : rest});
  }

  /** Choose one head if all were chosen; otherwise add it to the choice or remove it. */
  function toggle(name) {
    const kind = shown;
    if (!app.state.heads[kind]) return choose(kind, [name]);
    const now = chosen(kind);
    choose(kind, now.includes(name) ? now.filter(one => one !== name) : [...now, name]);
  }

  function toggleLayer(entry) {
    const kind = shown;
    const mine = app.reading.entries[entry].heads.map(head => headName(entry, head));
    const now = app.state.heads[kind] ? chosen(kind) : [];
    const whole = mine.every(name => now.includes(name));
    choose(kind, whole ? now.filter(name => !mine.includes(name)) : [...new Set([...now, ...mine])]);
  }

  function build() {
    const kind = shown;
    const rows = app.reading.entries.map((entry, n) => [entry, n]).filter(([entry]) => entry.kind === kind);
    across = Math.max(...rows.map(([entry]) => entry.heads.length));
    grid.style.setProperty("--across", String(across));
    grid.classList.toggle("small", across > 8);
    grid.classList.toggle("tall", rows.length > 12);
    buttons = [];
    grid.replaceChildren(
      ...rows.map(([entry, n]) => {
        const title = `All heads of layer ${entry.layer}`;
        const all = {class: "layer", "aria-label": title, title, click: () => toggleLayer(n)};
        const label = button(all, String(entry.layer));
        const cells = entry.heads.map(head => thumbnail(headName(n, head)));
        buttons.push(...cells);
        return make("div", {class: "layer-row"}, label, ...cells);
      }),
    );
    stops.reset();
    hint.textContent = hintOf(app.reading, kind);
    const focused = switcher.contains(document.activeElement);
    switcher.replaceChildren(kindSwitch(app, kind, one => app.change({kind: one, word: fitting(one), to: null})));
    if (focused) switcher.querySelector('[aria-checked="true"]').focus();
    switcher.hidden = kindsOf(app.reading).length < 2;
    paint();
    mark();
  }

  /** The chosen word if this kind of attention has a row for it. */
  function fitting(kind) {
    const word = app.state.word;
    const side = word && {source: "encoder", target: "cross decoder", read: "decoder"}[word.side];
    return kindsOf(app.reading).length === 1 || side?.includes(kind) ? word : null;
  }

  function thumbnail(name) {
    const canvas = make("canvas", {"aria-hidden": "true", width: 1, height: 1});
    const label = headTitle(app.reading, name);
    const attributes = {class: "thumb", tabindex: -1, "aria-pressed": "false", "aria-label": label, "data-head": name};
    const listeners = {
      pointerenter: event => event.pointerType !== "touch" && (point(name), say(name)),
      focus: event => event.target.matches(":focus-visible") && (point(name), say(name)),
      click: () => (point(null), toggle(name)), // show the chosen heads, not the head under the pointer
    };
    const role = roleOf(app.reading, name).replace("(a ", "(a\u00a0");
    return button({...attributes, ...listeners}, canvas, make("span", {class: "role"}, role));
  }

  /** What a role means, as the server defines it. */
  function meaningOf(role, before = " – ") {
    const meant = app.about.roles[role] ?? app.about.roles[role.slice(role.indexOf("("))];
    return meant ? before + meant : "";
  }

  function say(name) {
    if (!name) {
      said.textContent = "Choose a head to see it alone; choose more to mix them.";
      return;
    }
    const [n, head] = headOf(name);
    const entry = app.reading.entries[n];
    const weight = entry.weights[entry.heads.indexOf(head)];
    const meant = meaningOf(roleOf(app.reading, name));
    said.textContent = headTitle(app.reading, name) + (weight ? `, ${asPercent(weight)} of its attention` : "") + meant;
  }

  /** Mark the chosen heads. */
  function mark() {
    const kind = shown;
    const names = new Set(chosen(kind));
    for (const button of buttons) button.setAttribute("aria-pressed", String(names.has(button.dataset.head)));
    const all = headsOf(app.reading, kind);
    const pill = (label, wanted) => {
      const same = wanted.length === names.size && wanted.every(name => names.has(name));
      return button({class: "pill", "aria-pressed": String(same), click: () => choose(kind, wanted)}, label);
    };
    const known = all.filter(name => roleOf(app.reading, name));
    const byRole = Map.groupBy(known, name => roleOf(app.reading, name));
    const roles = byRole.size > 1 ? [...byRole].sort((a, b) => b[1].length - a[1].length).slice(0, 6) : [];
    const at = presets.contains(document.activeElement) ? [...presets.children].indexOf(document.activeElement) : -1;
    const groups = [[`all ${all.length}`, all], ["none", []]];
    groups.push(...roles.map(([role, names]) => [`${role} · ${names.length}`, names]));
    presets.replaceChildren(...groups.map(([label, wanted]) => pill(label, wanted)));
    const listed = [...byRole.keys()].map(role => [make("dt", {}, role), make("dd", {}, meaningOf(role, ""))]);
    definitions.replaceChildren(...listed.flat());
    presets.children[at]?.focus();
    grid.classList.toggle("all", names.size === all.length);
    say(null);
  }

  /** Draw the thumbnails. */
  function paint() {
    if (!app.reading) return;
    const table = colourTable(themeNow());
    for (const button of buttons) {
      const [n, head] = headOf(button.dataset.head);
      const entry = app.reading.entries[n];
      const place = entry.heads.indexOf(head);
      numbersOf(n).then(({data, shape: [, rows, columns]}) => {
        const cells = data.subarray(place * rows * columns, (place + 1) * rows * columns);
        paintCells(button.firstElementChild, cells, [rows, columns], entry.keys / columns, table);
      }, app.trouble);
    }
  }

  /** All weights of an entry or, of a long text, the server's small pictures of them. */
  function numbersOf(entry) {
    const address = query(app.answers.dense ? "/api/weights" : "/api/thumbnails", {reading: app.reading.id, entry});
    if (!fetched.has(address)) fetched.set(address, getFloats(address));
    return fetched.get(address);
  }

  return {
    chosen,
    chooseAll: kind => choose(kind, null),
    onReading() {
      fetched.clear();
      shown = "";
    },
    /** List the heads of a kind. */
    show(kind) {
      if (kind === shown) return;
      shown = root.dataset.kind = kind;
      build();
    },
    mark,
    paint,
  };
}

/** The role of a head, by its name; "" where it is not known. */
function roleOf({entries}, name) {
  const [n, head] = headOf(name);
  return entries[n].roles[entries[n].heads.indexOf(head)] ?? "";
}

/** "Layer 5, head 0: next token". */
export function headTitle(reading, name) {
  const [n, head] = headOf(name);
  const role = roleOf(reading, name);
  return `Layer ${reading.entries[n].layer}, head ${head}${role ? `: ${role}` : ""}`;
}

/** The name of a kind of attention in a sentence. */
export function kindInWords(kind) {
  return kind === "cross" ? "cross-attention" : kind;
}

/** A button for each head of some kinds, a row for each layer; `click(name)` gets a head, and `after(n)` may give more at
 *  the end of the row of entry n. */
export function headGrid(app, kinds, click, after = () => null) {
  const rows = app.reading.entries.map((entry, n) => [entry, n]).filter(([entry]) => kinds.includes(entry.kind));
  const title = kinds.map(kindInWords).join(" and ");
  const grid = make("div", {class: "off-grid", role: "group", "aria-label": `Heads of the ${title}`});
  for (const [{heads, layer, kind}, n] of rows) {
    const buttons = heads.map(head => {
      const name = headName(n, head);
      const label = headTitle(app.reading, name);
      const named = {"data-kind": kind, "data-head": name, "aria-label": label, title: label};
      return button({class: "off-head", tabindex: -1, ...named, click: () => click(name)});
    });
    const which = kinds.length > 1 ? (kind === "cross" ? " cross" : " self") : "";
    const number = make("span", {class: "quiet", "aria-hidden": "true"}, `${layer}${which}`);
    grid.append(make("div", {class: "off-row"}, number, ...buttons, after(n)));
  }
  const buttons = [...grid.querySelectorAll("button")];
  roving(grid, () => buttons, () => rows[0][0].heads.length).reset();
  return make("div", {}, make("h3", {class: "side-name"}, title), grid);
}

/** Radio buttons for the kinds of attention of a reading. */
export function kindSwitch(app, kind, choose) {
  const buttons = kindsOf(app.reading).map(one => {
    const checked = {"aria-checked": String(one === kind), tabindex: one === kind ? 0 : -1};
    return button({role: "radio", "data-kind": one, ...checked, click: () => choose(one)}, KIND_NAMES[one]);
  });
  const named = {class: "switch", role: "radiogroup", "aria-label": "Kind of attention", hidden: buttons.length < 2};
  const group = make("div", named, ...buttons);
  roving(group, () => buttons);
  return group;
}

/** Draw weights as pixels, one for each cell, or for the largest of several cells; a mean over `times` keys counts as their
 *  sum. */
function paintCells(canvas, cells, [rows, columns], times, table) {
  const [high, wide] = [Math.min(rows, LARGEST), Math.min(columns, LARGEST)];
  canvas.width = wide;
  canvas.height = high;
  const picture = new ImageData(wide, high);
  const most = new Float32Array(high * wide);
  for (let row = 0; row < rows; row++) {
    const y = Math.floor((row * high) / rows);
    for (let column = 0; column < columns; column++) {
      const at = y * wide + Math.floor((column * wide) / columns);
      most[at] = Math.max(most[at], cells[row * columns + column]);
    }
  }
  for (let n = 0; n < most.length; n++) {
    const step = Math.round(255 * Math.min(Math.sqrt(times * most[n]), 1));
    picture.data.set(table.subarray(3 * step, 3 * step + 3), 4 * n);
    picture.data[4 * n + 3] = 255;
  }
  canvas.getContext("2d").putImageData(picture, 0, 0);
}
