// The map of a reading, fed by the server: opened when its tab is first shown, for one kind of attention at a time.

import { kindsOf } from "./answers.js";
import { kindSwitch } from "./heads.js";
import { make } from "./ui.js";

/** The view "Map" in `root`. */
export function openMapTab(root, app) {
  let opened = null; // {name, map}
  let quiet = false; // the view came from the map itself

  async function show() {
    const { reading, state } = app;
    if (!reading || state.tab !== "map") return;
    const kind = kindsOf(reading).includes(state.kind) ? state.kind : kindsOf(reading)[0];
    const name = `${reading.id} ${kind}`;
    if (opened?.name === name) return;
    opened?.map?.close();
    opened = { name, map: null };
    const box = make("div", { class: "map-box" });
    root.replaceChildren(
      ...(kindsOf(reading).length > 1 ? [kindSwitch(app, kind, (to) => app.change({ kind: to, map: "" }))] : []),
      box,
    );
    const [{ openMap }, { serverFeed }] = await Promise.all([import("./map.js"), import("./feeds.js")]);
    const feed = serverFeed(reading, kind);
    if (opened.name !== name) return;
    opened.map = openMap(box, feed, { view: parsed(state.map), onView });
  }

  function onView(view) {
    quiet = true;
    app.change({ map: JSON.stringify(view) });
    quiet = false;
  }

  function parsed(text) {
    try {
      return text ? JSON.parse(text) : undefined;
    } catch {
      return undefined; // an address that was cut off
    }
  }

  const showNow = () => show().catch(app.trouble);
  return {
    onReading: showNow,
    onShow: showNow,
    update(patch) {
      if ("kind" in patch) showNow();
      const view = "map" in patch && !quiet ? parsed(app.state.map) : undefined;
      if (view) opened?.map?.setView(view);
    },
    map: () => opened?.map,
    picture: () => root,
  };
}
