// The map of a reading, fed by the server: it opens when its tab is first shown, for one kind of attention at a time.

import {getFloats, getJson, headName, headOf, kindsOf, query} from "./api.js";
import {kindSwitch} from "./heads.js";
import {make} from "./ui.js";

/** The view "Map" in `root`. */
export function openMapTab(root, app) {
  let opened = null; // {name, map, show}
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
    root.replaceChildren(kindSwitch(app, kind, to => app.change({kind: to, map: ""})), box);
    const {openMap, textOfView, viewOfText} = await import("./map.js");
    if (opened.name !== name) return;
    const onView = view => {
      quiet = true;
      app.change({map: textOfView(view)});
      quiet = false;
    };
    const view = state.map ? viewOfText(state.map) : headView(kind);
    opened.map = openMap(box, serverFeed(reading, kind), {view, onView});
    opened.show = text => opened.map.setView(viewOfText(text));
  }

  /** The chosen head, if it is a single head. */
  function headView(kind) {
    const names = app.state.heads[kind] ?? [];
    if (names.length !== 1) return null;
    const [entry, head] = headOf(names[0]);
    const alike = app.reading.entries.map((_, n) => n).filter(n => app.reading.entries[n].kind === kind);
    return {layer: alike.indexOf(entry), head};
  }

  const showNow = () => show().catch(app.trouble);
  return {
    onReading: showNow,
    onShow: showNow,
    update(patch) {
      if ("kind" in patch) showNow();
      if (patch.map && !quiet) opened?.show?.(patch.map);
    },
    map: () => opened?.map,
    picture: () => root,
  };
}

/** The feed of a map (see feeds.js) from the server: the entries of one kind, whose rows and columns are the same texts. */
function serverFeed(reading, kind) {
  const numbers = reading.entries.map((_, n) => n).filter(n => reading.entries[n].kind === kind);
  const {rows, columns, queries, keys} = reading.entries[numbers[0]];
  const [sides, entries] = [{rows, columns}, numbers.map(n => reading.entries[n])];
  const ask = (name, values) => query(`/api/${name}`, {reading: reading.id, ...values});
  return {
    about: {title: "", queries, keys, same: rows === columns, entries, note: reading.note},
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
