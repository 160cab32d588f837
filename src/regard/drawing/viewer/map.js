// The map of an attention matrix, from all of it to a single cell: `openMap`.

import {choiceFrom, headSelects} from "./choices.js";
import {colourLookup, colourRange, colourTable, percentOf} from "./colour.js";
import {element, handOver} from "./elements.js";
import {findBox} from "./find.js";
import {boundedView, largestCell, layout, levelFor, scalesAt, wholeZoom, zoomedView} from "./geometry.js";
import {listenToGestures} from "./gestures.js";
import {canvasPainter, svgPainter} from "./painters.js";
import {exactText, largestPlaces, showPassages} from "./passages.js";
import {deepestLevel, inSight, paintScene, plotIn, valueAt} from "./scene.js";
import {inOneLine} from "./texts.js";
import {tileSpec, tilesIn, tileStore} from "./tiles.js";
import {tokenCache} from "./tokens.js";

const easeTime = 90, flyTime = 420;  // milliseconds
const wordZoom = Math.log2(26);  // at which words can be read
const sentence = 64;  // tokens
const strongestSide = 256;  // tokens of a bin whose strongest pair is looked for

/**
 * Fill `root` with a map of what `feed` gives. `view` is {x, y, z, layer, head, colour, cell}, each of them optional;
 * `onView(view)` is called when it has changed. In a page that scrolls (`embedded`) the wheel zooms only a map that has
 * the focus.
 */
export function openMap(root, feed, {view: wanted = null, onView = () => {}, embedded = false} = {}) {
  const {about} = feed;
  const still = matchMedia("(prefers-reduced-motion: reduce)");
  const state = {
    view: null, goal: null, flight: null, choice: choiceFrom(about, wanted), mode: modeFrom(wanted),
    cell: null, open: false, hover: null, marks: {side: "rows", places: [], current: null}, range: null, share: 1,
    problem: "",
  };
  const store = tileStore(feed, schedule, message => {
    state.problem = message;
    setTimeout(schedule, 4100);
  });
  const tokens = {rows: tokenCache(feed, "rows", about.queries, schedule)};
  tokens.columns = about.same ? tokens.rows : tokenCache(feed, "columns", about.keys, schedule);

  // The elements

  const canvas = element("canvas", {"aria-hidden": "true"});
  const context = canvas.getContext("2d", {alpha: false});
  const tip = element("div", {class: "map-tip", hidden: true});
  const surface = element("div", {
    class: "map-plot", tabindex: "0", role: "application", "aria-roledescription": "map",
    "aria-label": `Attention map: ${about.queries.toLocaleString("en")} rows that look, ` +
      `${about.keys.toLocaleString("en")} columns that are looked at`,
    "aria-description": "Arrow keys move the cell, Shift and arrow keys the map, plus and minus zoom, Home shows all, " +
      "Enter opens the cell, Escape closes it.",
  }, canvas, tip);
  const panel = element("aside", {class: "map-panel", hidden: true, "aria-label": "The open cell"});
  const live = element("p", {class: "map-hidden", "aria-live": "polite"});
  const selects = headSelects(about, choice => {
    state.choice = choice;
    state.share = 1;
    changed();
    if (state.open) openCell(state.cell);
  });
  const colours = element("select", {change() {
    state.mode = this.value;
    changed();
  }}, element("option", {value: "log"}, "logarithm"), element("option", {value: "linear"}, "linear"));
  const find = findBox(feed, (side, place, places) => follow(side, place, places));
  const button = (text, label, click) => element("button", {type: "button", "aria-label": label, title: label, click}, text);
  const field = (text, control) => element("label", {class: "map-field"}, element("span", {}, text), control);
  const bar = element("div", {class: "map-bar", role: "group", "aria-label": "What the map shows"},
    ...selects.fields, field("Colours", colours), find.form,
    element("div", {class: "map-buttons"},
      button("−", "Zoom out", () => zoomBy(0.5)), button("+", "Zoom in", () => zoomBy(2)),
      button("All", "Show the whole matrix", showAll)),
    element("div", {class: "map-buttons"},
      button("SVG", "Save what is on the screen as SVG", () => handOver(new Blob([svg()], {type: "image/svg+xml"}), "map.svg")),
      button("PNG", "Save what is on the screen as PNG", async () => handOver(await png(), "map.png"))));
  const body = element("div", {class: "map-body"}, surface, panel);
  const note = element("p", {class: "map-note"}, noteText(about));
  root.classList.add("regard-map");
  root.replaceChildren(bar, body, note, live);

  // What is drawn, and when

  let frameAsked = 0, lastTime = 0, width = 0, height = 0, style = null, polled = 0, looked = {};

  function schedule() {
    if (!frameAsked) frameAsked = requestAnimationFrame(frame);
  }

  function changed() {
    schedule();
    onView(publicView());
  }

  function plot() {
    return plotIn(width, height);
  }

  function frame(time) {
    frameAsked = 0;
    if (!width || !state.view) return;
    const elapsed = Math.min(time - lastTime, 50);
    lastTime = time;
    const moving = advance(time, elapsed);
    const scene = sceneFor(plot());
    const missing = askForTiles(scene);
    chooseRange(scene, missing);
    Object.assign(scene, {range: state.range, lookup: lookup()});
    scene.footing = state.problem || (state.share < 1 ? `the rest is being read: ${Math.floor(100 * state.share)} %`
      : missing ? "being computed …" : "");
    const ratio = devicePixelRatio || 1;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.fillStyle = style.colours.ground;
    context.fillRect(0, 0, width, height);
    const settled = paintScene(canvasPainter(context), scene);
    if (moving || !settled) schedule();
    root.dataset.state = missing || moving || !settled ? "busy" : "idle";
  }

  function sceneFor(area) {
    const at = layout(state.view, about, area);
    const level = [levelFor(at.scale.rows), levelFor(at.scale.columns)];
    return {
      at, about, level, store, tokens, choice: state.choice, colours: style.colours, table: style.table,
      marks: state.marks, cell: state.cell, hover: state.hover,
    };
  }

  /** Ask for the tiles in sight, and first of all for one that has everything; gives how many are not there. */
  function askForTiles({at, level, choice}) {
    const sight = inSight(at, about), whole = deepestLevel(about, level);
    const wantedTiles = tilesIn(choice, level, sight.rows, sight.columns);
    const base = tileSpec(choice, level.map(each => each + whole), 0, 0);
    const missing = store.want(store.get(base.key) ? wantedTiles : [base, ...wantedTiles]);
    const incomplete = wantedTiles.some(spec => store.get(spec.key)?.complete === false);
    if (incomplete) pollReady();
    else state.share = 1;
    if (!missing) state.problem = "";
    return missing;
  }

  function pollReady() {
    if (polled) return;
    polled = setTimeout(async () => {
      state.share = await feed.ready(state.choice.heads).catch(() => state.share);
      polled = 0;
      schedule();
    }, 750);
  }

  /** Colours for what is in sight: once all of it is there, so that they do not flicker. */
  function chooseRange({at, level, choice}, missing) {
    if (missing && state.range && state.range.mode === state.mode) return;
    const sight = inSight(at, about);
    let found = tilesIn(choice, level, sight.rows, sight.columns).map(spec => store.get(spec.key)).filter(Boolean);
    const base = store.get(tileSpec(choice, level.map(each => each + deepestLevel(about, level)), 0, 0).key);
    if (!found.length && base) found = [base];
    if (!found.length && state.range?.mode === state.mode) return;
    const largest = Math.max(0, ...found.map(tile => tile.largest));
    const small = Math.min(Infinity, ...found.map(tile => tile.small).filter(each => each > 0));
    state.range = colourRange(state.mode, largest, Number.isFinite(small) ? small : 0);
  }

  /** The colours of all values, the same object until the range or the theme has changed. */
  function lookup() {
    const {mode, low, high} = state.range, key = `${style.scheme} ${mode} ${low} ${high}`;
    if (looked.key !== key) looked = {key, lookup: colourLookup(state.range, style.table)};
    return looked.lookup;
  }

  function readStyle() {
    const found = getComputedStyle(root), colour = name => found.getPropertyValue(`--map-${name}`).trim();
    const scheme = colour("scheme") === "dark" ? "dark" : "light";
    style = {scheme, table: colourTable(scheme), colours: {
      ground: colour("ground"), paper: colour("paper"), line: colour("line"), grid: colour("grid"), ink: colour("ink"),
      muted: colour("muted"), accent: colour("accent"), onAccent: colour("on-accent"), mark: colour("mark"),
      marked: colour("marked"),
    }};
    schedule();
  }

  // The view and how it moves

  function bounded(view) {
    return boundedView(view, about, plot());
  }

  function advance(time, elapsed) {
    if (state.flight) {
      state.flight.start ??= time;
      const share = Math.min((time - state.flight.start) / flyTime, 1), eased = share * share * (3 - 2 * share);
      const {from, to} = state.flight;
      const z = from.z + (to.z - from.z) * eased;
      // The place moves as fast as it seems to at the zoom of that moment.
      const apart = Math.abs(to.z - from.z) < 0.01 ? eased : (2 ** (from.z - z) - 1) / (2 ** (from.z - to.z) - 1);
      state.view = bounded({z, x: from.x + (to.x - from.x) * apart, y: from.y + (to.y - from.y) * apart});
      if (share < 1) return true;
      state.flight = null;
      changed();
      return true;
    }
    if (!state.goal) return false;
    const {z, anchor} = state.goal, left = z - state.view.z;
    const near = Math.abs(left) < 0.004 || still.matches;
    const next = near ? z : state.view.z + left * (1 - Math.exp(-elapsed / easeTime));
    state.view = bounded(zoomedView(state.view, next, anchor, about));
    if (!near) return true;
    state.goal = null;
    changed();
    return true;
  }

  function zoomTo(z, anchor, smooth) {
    const area = plot(), whole = wholeZoom(about, area.width, area.height), limited = Math.min(z, Math.log2(largestCell));
    if (limited <= whole) {
      showAll();  // in the middle again
      return;
    }
    state.flight = null;
    if (smooth && !still.matches) {
      state.goal = {z: limited, anchor};
      schedule();
      return;
    }
    state.goal = null;
    state.view = bounded(zoomedView(state.view, limited, anchor, about));
    changed();
  }

  function zoomBy(factor) {
    const at = layout(state.view, about, plot()), area = plot();
    const seen = state.cell && [at.x(state.cell[1] + 0.5), at.y(state.cell[0] + 0.5)];
    const inside = seen && seen[0] > area.left && seen[0] < area.left + area.width && seen[1] > area.top &&
      seen[1] < area.top + area.height;
    zoomTo((state.goal?.z ?? state.view.z) + Math.log2(factor), inside ? fromMiddle(seen) : [0, 0], true);
  }

  function fromMiddle([x, y]) {
    const area = plot();
    return [x - area.left - area.width / 2, y - area.top - area.height / 2];
  }

  function panBy(right, down) {
    const scale = scalesAt(state.view.z, about), area = plot();
    if (state.view.z <= wholeZoom(about, area.width, area.height) + 0.001) return;  // all of it is in sight
    state.flight = state.goal = null;
    state.view = bounded({...state.view, x: state.view.x - right / scale.columns, y: state.view.y - down / scale.rows});
    changed();
  }

  function showAll() {
    if (state.flight?.whole) return;
    fly({x: about.keys / 2, y: about.queries / 2, z: -99});
    if (state.flight) state.flight.whole = true;
  }

  function fly(to) {
    const goal = bounded(to);
    state.goal = null;
    if (still.matches) {
      state.view = goal;
      changed();
      return;
    }
    state.flight = {from: state.view, to: goal};
    schedule();
  }

  /** Move the map as little as needed to have a cell in sight. */
  function keepInSight([row, column]) {
    const area = plot(), at = layout(state.flight?.to ?? state.view, about, area), margin = 24;
    const over = (place, size, start, room) =>
      Math.min(place - start - margin, 0) || Math.max(place + size - start - room + margin, 0);
    const right = over(at.x(column), at.scale.columns, area.left, area.width);
    const down = over(at.y(row), at.scale.rows, area.top, area.height);
    if (right || down) panBy(-right, -down);
  }

  // Cells

  /** The row and column of a point; null outside of the matrix. */
  function cellAt(point) {
    const area = plot(), at = layout(state.view, about, area);
    if (point[0] < area.left || point[1] < area.top || point[1] > area.top + area.height) return null;
    const [row, column] = [Math.floor(at.row(point[1])), Math.floor(at.column(point[0]))];
    return row >= 0 && row < about.queries && column >= 0 && column < about.keys ? [row, column] : null;
  }

  async function tap(point) {
    const area = plot(), at = layout(state.view, about, area);
    surface.focus({preventScroll: true});
    hover(null);
    const spot = cellAt(point);
    if (spot) {
      openStrongest(spot, at);
      return;
    }
    const row = Math.floor(at.row(point[1])), column = Math.floor(at.column(point[0]));
    if (point[0] < area.left && row >= 0 && row < about.queries) follow("rows", row, [row]);
    else if (point[1] < area.top && column >= 0 && column < about.keys) follow("columns", column, [column]);
  }

  /** Open the cell at a place or, where a pixel has many of them, the one with the largest weight. */
  async function openStrongest([row, column], at) {
    const size = [levelFor(at.scale.rows), levelFor(at.scale.columns)].map(level => 2 ** level);
    if (size[0] === 1 && size[1] === 1) {
      openCell([row, column]);
      return;
    }
    if (Math.max(...size) > strongestSide) {
      zoomTo(state.view.z + 2, fromMiddle([at.x(column), at.y(row)]), true);
      return;
    }
    const rows = [row - row % size[0], Math.min(row - row % size[0] + size[0], about.queries)];
    const columns = [column - column % size[1], Math.min(column - column % size[1] + size[1], about.keys)];
    const bins = [rows[1] - rows[0], columns[1] - columns[0]];
    const values = await feed.tile({heads: state.choice.heads, rows, columns, bins}).catch(() => null);
    const [best] = values ? largestPlaces(values, 1) : [0];
    openCell([rows[0] + Math.floor(best / bins[1]), columns[0] + best % bins[1]]);
  }

  async function openCell(cell) {
    state.cell = cell;
    state.open = true;
    changed();
    const key = `${cell}/${state.choice.name}`;
    try {
      await showPassages(panel, {
        feed, tokens, choice: state.choice, cell, close: closeCell,
        go: next => {
          openCell(next);
          centre(next);
        },
        current: () => state.open && key === `${state.cell}/${state.choice.name}`,
      });
      announce(cell);
    } catch (error) {
      state.problem = error.message;
      schedule();
    }
  }

  function closeCell() {
    const inPanel = panel.contains(document.activeElement);
    state.open = false;
    panel.hidden = true;
    panel.replaceChildren();
    if (inPanel) surface.focus({preventScroll: true});
    changed();
  }

  function centre([row, column]) {
    const area = plot(), at = layout(state.view, about, area), margin = 40;
    const seen = at.x(column) > area.left + margin && at.x(column + 1) < area.left + area.width - margin &&
      at.y(row) > area.top + margin && at.y(row + 1) < area.top + area.height - margin;
    if (!seen) fly({x: column + 0.5, y: row + 0.5, z: state.view.z});
  }

  /** A word followed: its row or column stands out, and its strongest cell is open. */
  async function follow(side, place, places) {
    state.marks = {side, places, current: place};
    if (place === null) {
      changed();
      return;
    }
    schedule();
    const rows = side === "rows" ? [place, place + 1] : [0, about.queries];
    const columns = side === "rows" ? [0, about.keys] : [place, place + 1];
    const count = side === "rows" ? about.keys : about.queries;
    const bins = Math.min(count, 2 ** 16), size = count / bins;
    const cheap = side === "rows" || feed.local || count <= 20000;
    const values = cheap && await feed.tile({
      heads: state.choice.heads, rows, columns, bins: side === "rows" ? [1, bins] : [bins, 1],
    }).catch(() => null);
    if (state.marks.current !== place) return;
    const other = values ? Math.floor(largestPlaces(values, 1)[0] * size) : Math.min(place, count - 1);
    const cell = side === "rows" ? [place, other] : [other, place];
    openCell(cell);
    fly({x: cell[1] + 0.5, y: cell[0] + 0.5, z: Math.max(state.view.z, wordZoom)});
  }

  /** Say the cell to who cannot see it. */
  async function announce([row, column]) {
    const [[looker], [looked]] = await Promise.all([tokens.rows.range(row, row + 1), tokens.columns.range(column, column + 1)]);
    const found = valueAt(sceneFor(plot()), row, column);
    const value = !found ? "" : found.size.every(each => each === 1) ? `: ${percentOf(found.value)}`
      : `: mean ${percentOf(found.value)} of ${found.size[0]} by ${found.size[1]}`;
    live.textContent = `Row ${row}, ${inOneLine(looker)}, looks at column ${column}, ${inOneLine(looked)}${value}`;
  }

  // Pointer and keys

  function hover(point) {
    const spot = point && cellAt(point);
    state.hover = spot;
    schedule();
    const scene = spot && sceneFor(plot()), found = spot && valueAt(scene, ...spot);
    tip.hidden = !found;
    if (!found) return;
    const words = [tokens.rows.get(spot[0]), tokens.columns.get(spot[1])].map(token => inOneLine(token ?? "…").slice(0, 40));
    const exact = found.size.every(each => each === 1);
    tip.replaceChildren(
      element("strong", {}, exact ? `${percentOf(found.value)}` : `mean ${percentOf(found.value)}`), " ",
      exact ? `${words[0]} → ${words[1]}` : `${words[0]} … → ${words[1]} …`,
      element("span", {}, exact ? exactText(found.value) : `${found.size[0]} × ${found.size[1]} tokens`));
    const box = tip.getBoundingClientRect();
    tip.style.left = `${Math.max(Math.min(point[0] + 16, width - box.width - 4), 4)}px`;
    tip.style.top = `${point[1] + 18 + box.height > height ? point[1] - box.height - 10 : point[1] + 18}px`;
  }

  function key(event) {
    if (event.target !== surface || event.ctrlKey || event.metaKey || event.altKey) return false;
    const steps = {ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0]};
    const area = plot();
    if (steps[event.key]) {
      const [down, right] = steps[event.key];
      if (event.shiftKey) panBy(-right * area.width / 4, -down * area.height / 4);
      else moveCell(down, right);
      return true;
    }
    const actions = {
      "+": () => zoomBy(2), "=": () => zoomBy(2), "-": () => zoomBy(0.5), Home: showAll, "0": showAll,
      PageUp: () => panBy(0, area.height * 0.9), PageDown: () => panBy(0, -area.height * 0.9),
      Enter: () => state.cell && openStrongest(state.cell, layout(state.view, about, area)),
      Escape: () => {
        find.clear();
        state.marks = {side: state.marks.side, places: [], current: null};
        if (state.open) closeCell();
        else state.cell = null;
        changed();
      },
    };
    actions[event.key]?.();
    return event.key in actions;
  }

  function moveCell(down, right) {
    const at = layout(state.view, about, plot());
    const size = [levelFor(at.scale.rows), levelFor(at.scale.columns)].map(level => 2 ** level);
    const times = size.map((each, axis) => Math.max(each, Math.round(3 / (axis ? at.scale.columns : at.scale.rows))));
    const from = state.cell ?? [Math.floor(state.view.y), Math.floor(state.view.x)];
    const within = (place, count) => Math.min(Math.max(place, 0), count - 1);
    state.cell = state.cell ? [
      within(from[0] + down * times[0], about.queries), within(from[1] + right * times[1], about.keys),
    ] : [within(from[0], about.queries), within(from[1], about.keys)];
    keepInSight(state.cell);
    if (state.open) openCell(state.cell);
    else announce(state.cell);
    changed();
  }

  const stopGestures = listenToGestures(surface, {
    pan: panBy, tap, hover, key,
    zoom: (factor, point, smooth) => zoomTo((smooth && state.goal ? state.goal.z : state.view.z) + Math.log2(factor), fromMiddle(point), smooth),
    wheel: () => !embedded || document.activeElement === surface,
  });

  // What others see

  function publicView() {
    const {x, y, z} = state.flight?.to ?? state.view ?? {};
    const {layer, head} = state.choice;
    return {x, y, z, layer, head, colour: state.mode, cell: state.open ? state.cell : null};
  }

  /** The colours that a view names; else linear for a sentence, where a few weights count, and logarithmic for more. */
  function modeFrom(view) {
    if (["log", "linear"].includes(view?.colour)) return view.colour;
    return Math.max(about.queries, about.keys) <= sentence ? "linear" : "log";
  }

  function setView(next) {
    state.choice = choiceFrom(about, next);
    selects.show(state.choice);
    state.mode = modeFrom(next);
    colours.value = state.mode;
    state.goal = state.flight = null;
    if (width) {
      const whole = {x: about.keys / 2, y: about.queries / 2, z: -99};
      const given = [next?.x, next?.y, next?.z].every(Number.isFinite);
      state.view = bounded(given ? {x: next.x, y: next.y, z: next.z} : whole);
    }
    const [row, column] = next?.cell ?? [];
    if (row >= 0 && row < about.queries && column >= 0 && column < about.keys) openCell([row, column]);
    else if (state.open) closeCell();
    schedule();
  }

  /** The picture on the screen, with its title. */
  function paintSaved(paint, extra) {
    const area = plotIn(width, height), scene = sceneFor({...area, top: area.top + extra});
    Object.assign(scene, {range: state.range, lookup: lookup(), footing: "", hover: null});
    paint.rect(0, 0, width, height + extra, style.colours.ground);
    while (!paintScene(canvasPainter(scratch(width, height + extra)), scene));  // until all tiles have their colours
    paintScene(paint, scene);
    const title = [about.title, state.choice.title].filter(Boolean).join(" · ");
    paint.text(10, 20, title, {size: 14, bold: true, fill: style.colours.ink});
  }

  function scratch(wide, tall) {
    return Object.assign(document.createElement("canvas"), {width: wide, height: tall}).getContext("2d");
  }

  function svg() {
    const paint = svgPainter(width, height + 28, about.title || "Attention map");
    paintSaved(paint, 28);
    return paint.finish();
  }

  function png() {
    const ratio = Math.max(devicePixelRatio || 1, 2), drawn = scratch(width * ratio, (height + 28) * ratio);
    drawn.scale(ratio, ratio);
    paintSaved(canvasPainter(drawn), 28);
    return new Promise(resolve => drawn.canvas.toBlob(resolve, "image/png"));
  }

  function pooled(rows, columns, bins) {
    return feed.tile({heads: state.choice.heads, rows, columns, bins});
  }

  const resized = new ResizeObserver(() => {
    const box = surface.getBoundingClientRect(), ratio = devicePixelRatio || 1;
    const first = !width;
    [width, height] = [Math.round(box.width), Math.round(box.height)];
    if (!width || !height) return;
    [canvas.width, canvas.height] = [Math.round(width * ratio), Math.round(height * ratio)];
    if (first) setView(wanted);
    else state.view = bounded(state.view);
    if (state.open && state.cell && !first) keepInSight(state.cell);
    cancelAnimationFrame(frameAsked);
    frameAsked = 0;
    frame(performance.now());  // at once: a canvas is blank after it has got another size
  });
  const darkness = matchMedia("(prefers-color-scheme: dark)"), themed = new MutationObserver(readStyle);
  darkness.addEventListener("change", readStyle);
  for (const node of [document.documentElement, document.body, root]) {
    themed.observe(node, {attributes: true, attributeFilter: ["data-theme", "class"]});
  }
  selects.show(state.choice);
  colours.value = state.mode;
  readStyle();
  resized.observe(surface);

  return {
    setView, view: publicView, svg, png,
    /** Where the middle of a cell is, in pixels of the window. */
    place([row, column]) {
      const box = surface.getBoundingClientRect(), at = layout(state.view, about, plot());
      return [box.left + at.x(column + 0.5), box.top + at.y(row + 0.5)];
    },
    /** The exact weights of rows [start, stop] and columns [start, stop], as they are shown. */
    weights: (rows, columns) => pooled(rows, columns, [rows[1] - rows[0], columns[1] - columns[0]]),
    /** The same averaged over bins. */
    pooled,
    close() {
      cancelAnimationFrame(frameAsked);
      clearTimeout(polled);
      stopGestures();
      resized.disconnect();
      themed.disconnect();
      darkness.removeEventListener("change", readStyle);
      store.close();
      feed.close();
      root.replaceChildren();
    },
  };
}

/** What is shown, and how exact it is. */
function noteText(about) {
  const said = [about.note];
  if (about.error !== undefined) {
    said.push(`Queries and keys in float16: weights differ from the model's by at most ${about.error.toPrecision(2)} ` +
      `(a sample of ${about.sample} rows of each head).`);
  }
  if (about.left_out) {
    const inside = about.entries.reduce((sum, entry) => sum + entry.heads.length, 0);
    said.push(`${inside} of ${inside + about.left_out} heads are inside, and means are over these. For others save ` +
      `record.at(layer=…, head=…).picture("map"), or A.picture(kind="map", heads=[…]).`);
  }
  return said.filter(Boolean).join(" ");
}
