// The map of a reading, fed by the server: it opens when its tab is first shown, for one kind of attention at a time.

import {getFloats, getJson, headName, headOf, kindsOf, query} from "./api.js";
import {kindSwitch} from "./heads.js";
import {make} from "./ui.js";

/** The view "Map" in `root`. */
export function openMapTab(root, app) {
  let opened = null; // {name, map}
  let quiet = false; // the change came from the map itself

  async function show() {
    const {reading, state} = app;
    if (!reading || state.tab !== "map") return;
    const kind = kindsOf(reading).includes(state.kind) ? state.kind : kindsOf(reading)[0];
    const name = `${reading.id} ${kind}`;
    if (opened?.name === name) return;
    opened?.map?.close();
    opened = {name, map: null};
    const box = make("div", {class: "map-box"});
    root.replaceChildren(
      ...(kindsOf(reading).length > 1 ? [kindSwitch(app, kind, to => app.change({kind: to, map: ""}))] : []),
      box,
    );
    const {openMap} = await import("./map.js");
    const feed = serverFeed(reading, kind);
    if (opened.name !== name) return;
    opened.map = openMap(box, feed, {view: mapView(state.map) ?? headView(kind), onView});
  }

  /** The chosen head, if it is a single head. */
  function headView(kind) {
    const names = app.state.heads[kind] ?? [];
    if (names.length !== 1) return null;
    const [entry, head] = headOf(names[0]);
    const alike = app.reading.entries.map((_, n) => n).filter(n => app.reading.entries[n].kind === kind);
    return {layer: alike.indexOf(entry), head};
  }

  function onView(view) {
    quiet = true;
    app.change({map: mapText(view)});
    quiet = false;
  }

  const showNow = () => show().catch(app.trouble);
  return {
    onReading: showNow,
    onShow: showNow,
    update(patch) {
      if ("kind" in patch) showNow();
      const view = "map" in patch && !quiet ? mapView(app.state.map) : undefined;
      if (view) opened?.map?.setView(view);
    },
    map: () => opened?.map,
    picture: () => root,
  };
}

/** A view of the map in an address: its middle, zoom, layer, head, colours and open cell. */
function mapText({x, y, z, layer, head, colour, cell}) {
  const places = [x, y, z].map(value => (Number.isFinite(value) ? Number(value.toFixed(3)) : ""));
  return [...places, layer ?? "", head ?? "", colour ?? "", ...(cell ?? [])].join("_");
}

function mapView(text) {
  if (!text) return null;
  const [x, y, z, layer, head, colour, ...cell] = text.split("_");
  const number = part => (part && Number.isFinite(Number(part)) ? Number(part) : undefined);
  const chosen = part => number(part) ?? (part || undefined);
  const open = cell.map(number);
  const whole = open.length === 2 && open.every(Number.isInteger);
  const places = {x: number(x), y: number(y), z: number(z)};
  return {...places, layer: chosen(layer), head: chosen(head), colour: colour || undefined, cell: whole ? open : null};
}

/** The feed of a map (see feeds.js) from the server: the entries of one kind, whose rows and columns are the same texts. */
function serverFeed(reading, kind) {
  const numbers = reading.entries.map((_, n) => n).filter(n => reading.entries[n].kind === kind);
  const {rows, columns, queries, keys} = reading.entries[numbers[0]];
  const sides = {rows, columns};
  const ask = (name, values) => query(`/api/${name}`, {reading: reading.id, ...values});
  return {
    about: {
      title: "",
      queries,
      keys,
      same: rows === columns,
      entries: numbers.map(n => reading.entries[n]),
      note: reading.note,
    },
    parallel: 4,
    async tile({heads, signal, ...part}) {
      const pairs = heads.map(([entry, head]) => headName(numbers[entry], head)).join(",");
      return (await getFloats(ask("tile", {heads: pairs, ...part}), signal)).data;
    },
    async tokens(side, start, stop) {
      const {tokens} = reading.sides[sides[side]];
      if (tokens.length) return tokens.slice(start, stop);
      return (await getJson(ask("tokens", {side: sides[side], from: start, to: stop}))).tokens;
    },
    find: async (side, text) => (await getJson(ask("find", {side: sides[side], text}))).places,
    ready: async heads => (await getJson(ask("ready", {entry: numbers[heads[0][0]]}))).share,
    close() {},
  };
}
