// The controls above a map: which heads it shows (one, or the mean of a layer or of all), and the search for a word.

import {element} from "./elements.js";

/** The choice of a layer (the number of an entry, or "all") and a head (its number, or "all"). */
function choiceOf(about, layer, head) {
  const {entries} = about;
  const numbers = layer === "all" ? entries.map((_, n) => n) : [layer];
  const known = n => entries[n].heads.filter(each => head === "all" || each === head);
  const heads = numbers.flatMap(n => known(n).map(each => [n, each]));
  return {layer, head, heads, name: `${layer}.${head}`, title: choiceTitle(entries, layer, head, heads.length)};
}

function choiceTitle(entries, layer, head, count) {
  const kind = new Set(entries.map(entry => entry.kind)).size === 1 ? entries[0].kind : "";
  const of = layer === "all" ? (entries.length > 1 ? `${entries.length} layers` : "") : layerName(entries, layer);
  const which = count === 1 ? (head === "all" ? "" : `head ${head}`) : `mean of ${count} heads`;
  return [kind, of, which].filter(Boolean).join(", ");
}

function layerName(entries, number) {
  const entry = entries[number], twice = entries.filter(each => each.layer === entry.layer).length > 1;
  return twice && entry.name ? entry.name : `layer ${entry.layer}`;
}

/** The choice that a view names, or the first: all heads. */
export function choiceFrom(about, view) {
  const layer = about.entries[view?.layer] ? view.layer : "all";
  const known = layer === "all" ? about.entries.flatMap(entry => entry.heads) : about.entries[layer].heads;
  return choiceOf(about, layer, known.includes(view?.head) ? view.head : "all");
}

/** Selects for layer and head, if there is something to choose; `choose(choice)` is called with a new choice. */
export function headSelects(about, choose) {
  const {entries} = about, every = entries.flatMap(entry => entry.heads);
  const layers = element("select", {change}), heads = element("select", {change});
  const option = (value, text) => element("option", {value}, text);
  if (entries.length > 1) layers.append(option("all", `all ${entries.length} (mean)`));
  entries.forEach((entry, n) => layers.append(option(n, layerName(entries, n))));

  function fillHeads(layer, head) {
    const known = layer === "all" ? [...new Set(every)].sort((one, other) => one - other) : entries[layer].heads;
    heads.replaceChildren(...(known.length > 1 ? [option("all", `all ${known.length} (mean)`)] : []),
      ...known.map(number => option(number, `head ${number}`)));
    heads.value = known.includes(head) && known.length > 1 ? head : known.length > 1 ? "all" : known[0];
  }

  function change() {
    const layer = layers.value === "all" ? "all" : Number(layers.value);
    fillHeads(layer, heads.value === "all" ? "all" : Number(heads.value));
    choose(choiceOf(about, layer, heads.value === "all" ? "all" : Number(heads.value)));
  }

  const labelled = (text, select) => element("label", {class: "map-field"}, element("span", {}, text), select);
  const fields = every.length > 1 ? [labelled("Head", heads)] : [];
  if (entries.length > 1) fields.unshift(labelled("Layer", layers));
  return {
    fields,
    show(choice) {
      layers.value = choice.layer;
      fillHeads(choice.layer, choice.head);
    },
  };
}

/** A form that searches the words that look and the words that are looked at; `follow(side, place, places)` is called with
 *  each place in turn, and all places of its side; place is null when there is none. */
export function findBox(feed, follow) {
  let places = [], current = 0, asked = "";  // places: [side, place], rows first
  const input = element("input", {
    type: "search", autocomplete: "off", spellcheck: "false", placeholder: "Find a word", "aria-label": "Find a word",
  });
  const count = element("output", {class: "map-count"});
  const step = (by, label, text) => element("button", {
    type: "button", "aria-label": label, title: label, disabled: true, click: () => go(by),
  }, text);
  const before = step(-1, "The place before", "↑"), after = step(1, "The next place", "↓");
  const form = element("form", {class: "map-find", role: "search", submit(event) {
    event.preventDefault();
    if (input.value === asked && places.length) go(1);
    else search();
  }}, input, before, after, count);
  input.addEventListener("search", () => input.value || clear());

  async function search() {
    const text = input.value.trim();
    asked = input.value;
    if (!text) {
      clear();
      return;
    }
    count.textContent = "…";
    const find = async side => (await feed.find(side, text).catch(() => [])).map(place => [side, place]);
    const both = await Promise.all(["rows", "columns"].map(find));
    if (asked.trim() !== text) return;
    [places, current] = [both.flat(), 0];
    show();
  }

  function go(by) {
    current = (current + by + places.length) % places.length;
    show();
  }

  function show() {
    before.disabled = after.disabled = places.length < 2;
    const [side, place] = places[current] ?? ["rows", null], where = side === "rows" ? "looks" : "is looked at";
    const counted = `${current + 1} of ${places.length.toLocaleString("en")}: ${where}`;
    count.textContent = places.length ? counted : "not found";
    follow(side, place, places.filter(([other]) => other === side).map(([, at]) => at));
  }

  function clear() {
    [places, asked] = [[], ""];
    input.value = count.textContent = "";
    before.disabled = after.disabled = true;
    follow("rows", null, []);
  }

  return {form, clear};
}
