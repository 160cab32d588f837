// The map of an attention matrix, from all of it to a single cell: `openMap`.

import {levelFor, listenToGestures, openCamera} from "./camera.js";
import {percentOf} from "./colour.js";
import {choiceFrom, findBox, headSelects} from "./controls.js";
import {element, handOver} from "./elements.js";
import {inOneLine, tokenCache} from "./feeds.js";
import {exactText, largestPlaces, showPassages} from "./passages.js";
import {valueAt} from "./scene.js";
import {openScreen} from "./screen.js";

const wordZoom = Math.log2(26);  // at which words can be read
const sentence = 64;  // tokens
const strongestSide = 256;  // tokens of a bin in which the largest weight is searched
const longestLine = 2 ** 20, waitedLine = 20000;  // tokens of a row; of a column of a feed that computes elsewhere
const tellTime = 150;  // milliseconds between two calls of onView

/**
 * Fill `root` with a map of a feed. `view` is {x, y, z, layer, head, colour, cell}, each of them optional;
 * `onView(view)` is called soon after the view has changed. In a page that scrolls (`embedded`) the wheel zooms only a map
 * that has the focus.
 */
export function openMap(root, feed, {view: wanted = null, onView = () => {}, embedded = false} = {}) {
  const {about} = feed, redraw = () => screen?.schedule();
  const rows = tokenCache(feed, "rows", about.queries, redraw);
  const shown = {
    tokens: {rows, columns: about.same ? rows : tokenCache(feed, "columns", about.keys, redraw)},
    choice: choiceFrom(about, wanted), mode: modeFrom(wanted), cell: null, hover: null,
    marks: {side: "rows", places: [], current: null},
  };
  let opened = false, told = 0, screen = null;  // `opened`: the cell's passages are shown

  // The elements

  const tip = element("div", {class: "map-tip", hidden: true});
  const count = number => number.toLocaleString("en");
  const surface = element("div", {
    class: "map-plot", tabindex: "0", role: "application", "aria-roledescription": "map",
    "aria-label": `Attention map: ${count(about.queries)} rows that look, ${count(about.keys)} columns looked at`,
    "aria-description": "Arrow keys move the cell, Shift and arrow keys the map, plus and minus zoom, " +
      "Home shows all, Enter opens the cell, Escape closes it.",
  }, tip);
  const panel = element("aside", {class: "map-panel", hidden: true, "aria-label": "The open cell"});
  const live = element("p", {class: "regard-unseen", "aria-live": "polite"});
  const selects = headSelects(about, choice => {
    shown.choice = choice;
    changed();
    if (opened) openCell(shown.cell);
  });
  const option = (value, text) => element("option", {value}, text);
  const colours = element("select", {change: choose}, option("log", "logarithm"), option("linear", "linear"));
  const find = findBox(feed, follow);
  const button = (text, label, click) =>
    element("button", {type: "button", "aria-label": label, title: label, click}, text);
  const svg = () => screen.svg(title());
  const png = () => screen.png(title());
  root.classList.add("regard-map");
  root.replaceChildren(
    element("div", {class: "map-bar", role: "group", "aria-label": "What the map shows"},
      ...selects.fields, element("label", {class: "map-field"}, element("span", {}, "Colours"), colours), find.form,
      element("div", {class: "map-buttons"},
        button("−", "Zoom out", () => camera.zoomBy(0.5, shown.cell)),
        button("+", "Zoom in", () => camera.zoomBy(2, shown.cell)),
        button("All", "Show the whole matrix", () => camera.showAll())),
      element("div", {class: "map-buttons"},
        button("SVG", "Save what is on the screen as SVG", () =>
          handOver(new Blob([svg()], {type: "image/svg+xml"}), "map.svg")),
        button("PNG", "Save what is on the screen as PNG", async () => handOver(await png(), "map.png")))),
    element("div", {class: "map-body"}, surface, panel),
    element("p", {class: "map-note"}, noteText(about)),
    live,
  );
  const camera = openCamera(about, () => screen.area(), changed);
  screen = openScreen(root, surface, feed, () => camera, () => shown, first => {
    if (first) setView(wanted);
    else camera.set(camera.target);
    if (opened && !first) camera.keepInSight(shown.cell);
  });
  selects.show(shown.choice);
  colours.value = shown.mode;

  function title() {
    return [about.title, shown.choice.title].filter(Boolean).join(" · ") || "Attention map";
  }

  function changed() {
    screen?.schedule();
    told ||= setTimeout(() => {
      told = 0;
      onView(view());
    }, tellTime);
  }

  function choose() {
    shown.mode = colours.value;
    changed();
  }

  // The view, as callers see it

  function view() {
    const {x, y, z} = camera.target ?? {}, {layer, head} = shown.choice;
    return {x, y, z, layer, head, colour: shown.mode, cell: opened ? shown.cell : null};
  }

  /** The colours that a view names; else linear for a sentence, where a few weights count, and logarithmic for more. */
  function modeFrom(from) {
    if (["log", "linear"].includes(from?.colour)) return from.colour;
    return Math.max(about.queries, about.keys) <= sentence ? "linear" : "log";
  }

  function setView(next) {
    shown.choice = choiceFrom(about, next);
    selects.show(shown.choice);
    colours.value = shown.mode = modeFrom(next);
    const whole = {x: about.keys / 2, y: about.queries / 2, z: -Infinity};
    camera.set([next?.x, next?.y, next?.z].every(Number.isFinite) ? {x: next.x, y: next.y, z: next.z} : whole);
    const [row, column] = next?.cell ?? [];
    if (row >= 0 && row < about.queries && column >= 0 && column < about.keys) openCell([row, column]);
    else if (opened) closeCell();
  }

  // Cells

  /** The row and column at a point; null outside of the matrix. */
  function cellAt([x, y]) {
    const {left, top, height} = screen.area(), at = camera.place();
    const [row, column] = [Math.floor(at.row(y)), Math.floor(at.column(x))];
    const inside = x >= left && y >= top && y <= top + height;
    return inside && row >= 0 && row < about.queries && column >= 0 && column < about.keys ? [row, column] : null;
  }

  function tap(point) {
    surface.focus({preventScroll: true});
    hover(null);
    const cell = cellAt(point), {left, top} = screen.area(), at = camera.place();
    const row = Math.floor(at.row(point[1])), column = Math.floor(at.column(point[0]));
    if (cell) openStrongest(cell);
    else if (point[0] < left && row >= 0 && row < about.queries) follow("rows", row, [row]);
    else if (point[1] < top && column >= 0 && column < about.keys) follow("columns", column, [column]);
  }

  /** How many rows and columns a pixel has. */
  function pixelSize() {
    const {scale} = camera.place();
    return [levelFor(scale.rows), levelFor(scale.columns)].map(level => 2 ** level);
  }

  /** Open the cell at a place or, where a pixel has many of them, the one with the largest weight. */
  async function openStrongest([row, column]) {
    const size = pixelSize(), at = camera.place();
    if (Math.max(...size) > strongestSide) {
      camera.zoomAt(4, [at.x(column), at.y(row)], true);
      return;
    }
    const span = (place, each, limit) => [place - place % each, Math.min(place - place % each + each, limit)];
    const [rowSpan, columnSpan] = [span(row, size[0], about.queries), span(column, size[1], about.keys)];
    const values = await weights(rowSpan, columnSpan).catch(() => null);
    const best = values ? largestPlaces(values, 1)[0] ?? 0 : 0, wide = columnSpan[1] - columnSpan[0];
    openCell([rowSpan[0] + Math.floor(best / wide), columnSpan[0] + best % wide]);
  }

  async function openCell(cell) {
    shown.cell = cell;
    opened = true;
    changed();
    const name = `${cell}/${shown.choice.name}`;
    try {
      await showPassages(panel, {
        feed, tokens: shown.tokens, choice: shown.choice, cell, close: closeCell,
        go(next) {
          openCell(next);
          camera.flyTo(next);
        },
        current: () => opened && name === `${shown.cell}/${shown.choice.name}`,
      });
      announce(cell);
    } catch (error) {
      screen.say(error.message);
    }
  }

  function closeCell() {
    const inPanel = panel.contains(document.activeElement);
    opened = false;
    panel.hidden = true;
    panel.replaceChildren();
    if (inPanel) surface.focus({preventScroll: true});
    changed();
  }

  /** Follow a word: highlight its row or column, and open its cell with the largest weight. */
  async function follow(side, place, places) {
    shown.marks = {side, places, current: place};
    changed();
    if (place === null) return;
    const isRow = side === "rows", line = [place, place + 1], length = isRow ? about.keys : about.queries;
    const short = length <= (isRow || feed.local ? longestLine : waitedLine);
    const ask = () => (isRow ? weights(line, [0, length]) : weights([0, length], line)).catch(() => null);
    const values = short ? await ask() : null;
    if (shown.marks.current !== place) return;
    const other = values ? largestPlaces(values, 1)[0] : Math.min(place, length - 1);
    const cell = isRow ? [place, other] : [other, place];
    openCell(cell);
    camera.fly({x: cell[1] + 0.5, y: cell[0] + 0.5, z: Math.max(camera.view.z, wordZoom)});
  }

  /** Announce the cell to screen readers. */
  async function announce([row, column]) {
    const {tokens} = shown, sides = [tokens.rows.range(row, row + 1), tokens.columns.range(column, column + 1)];
    const [looker, looked] = (await Promise.all(sides)).map(([token]) => inOneLine(token ?? ""));
    const found = valueAt(screen.scene(), row, column), [tall, wide] = found?.size ?? [];
    const mean = tall * wide > 1 ? ` on average, over ${tall} by ${wide}` : "";
    const value = found ? `: ${percentOf(found.value)}${mean}` : "";
    live.textContent = `Row ${row}, ${looker}, looks at column ${column}, ${looked}${value}`;
  }

  function weights(rowSpan, columnSpan) {
    return pooled(rowSpan, columnSpan, [rowSpan[1] - rowSpan[0], columnSpan[1] - columnSpan[0]]);
  }

  function pooled(rowSpan, columnSpan, bins) {
    return feed.tile({heads: shown.choice.heads, rows: rowSpan, columns: columnSpan, bins});
  }

  // Pointer and keys

  function hover(point) {
    shown.hover = point && cellAt(point);
    screen.schedule();
    const found = shown.hover && valueAt(screen.scene(), ...shown.hover);
    tip.hidden = !found;
    if (!found) return;
    const {tokens, hover: [row, column]} = shown, single = found.size.every(each => each === 1);
    const pair = [tokens.rows.get(row), tokens.columns.get(column)];
    const words = pair.map(token => inOneLine(token ?? "…").slice(0, 40));
    tip.replaceChildren(
      element("strong", {}, single ? percentOf(found.value) : `mean ${percentOf(found.value)}`), " ",
      single ? words.join(" → ") : `${words[0]} … → ${words[1]} …`,
      element("span", {}, single ? exactText(found.value) : `${found.size[0]} × ${found.size[1]} tokens`));
    const box = tip.getBoundingClientRect(), [x, y] = point;
    tip.style.left = `${Math.max(Math.min(x + 16, surface.clientWidth - box.width - 4), 4)}px`;
    tip.style.top = `${y + 18 + box.height > surface.clientHeight ? y - box.height - 10 : y + 18}px`;
  }

  function key(event) {
    if (event.target !== surface || event.ctrlKey || event.metaKey || event.altKey) return false;
    const steps = {ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0]};
    const {width, height} = screen.area(), [down, right] = steps[event.key] ?? [];
    const actions = {
      "+": () => camera.zoomBy(2, shown.cell), "=": () => camera.zoomBy(2, shown.cell),
      "-": () => camera.zoomBy(0.5, shown.cell), Home: camera.showAll, "0": camera.showAll,
      PageUp: () => camera.pan(0, height * 0.9), PageDown: () => camera.pan(0, -height * 0.9),
      Enter: () => shown.cell && openStrongest(shown.cell), Escape: leave,
    };
    if (down === undefined) actions[event.key]?.();
    else if (event.shiftKey) camera.pan(-right * width / 4, -down * height / 4);
    else moveCell(down, right);
    return down !== undefined || event.key in actions;
  }

  function leave() {
    if (opened) closeCell();
    else shown.cell = null;
    find.clear();
  }

  /** Move the cell by one, or by as many as a few pixels have; the first time it only appears. */
  function moveCell(down, right) {
    const size = pixelSize(), {scale} = camera.place();
    const within = (place, limit) => Math.min(Math.max(place, 0), limit - 1);
    const steps = [Math.max(size[0], Math.round(3 / scale.rows)), Math.max(size[1], Math.round(3 / scale.columns))];
    const [row, column] = shown.cell ?? [Math.floor(camera.view.y), Math.floor(camera.view.x)];
    const [by, across] = shown.cell ? [down * steps[0], right * steps[1]] : [0, 0];
    shown.cell = [within(row + by, about.queries), within(column + across, about.keys)];
    camera.keepInSight(shown.cell);
    if (opened) openCell(shown.cell);
    else announce(shown.cell);
    changed();
  }

  const stopGestures = listenToGestures(surface, {
    tap, hover, key, wheel: () => !embedded || document.activeElement === surface,
    pan(right, down) {
      hover(null);  // another cell is under the pointer now
      camera.pan(right, down);
    },
    zoom(factor, point, smooth) {
      hover(null);
      camera.zoomAt(factor, point, smooth);
    },
  });

  return {
    setView, view, svg, png,
    /** The exact weights of rows [start, stop] and columns [start, stop] as they are shown; averaged over bins. */
    weights, pooled,
    /** Where the middle of a cell is, in pixels of the window. */
    place([row, column]) {
      const box = surface.getBoundingClientRect(), at = camera.place();
      return [box.left + at.x(column + 0.5), box.top + at.y(row + 0.5)];
    },
    close() {
      clearTimeout(told);
      stopGestures();
      screen.close();
      feed.close();
      root.replaceChildren();
    },
  };
}

/** The note below the map: what it shows, and how exact it is. */
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

/** A view as text, for an address, and back. */
export function textOfView({x, y, z, layer, head, colour, cell}) {
  const round = value => Number.isFinite(value) ? Number(value.toFixed(3)) : undefined;
  const values = {x: round(x), y: round(y), z: round(z), layer, head, colour, cell: cell?.join(",")};
  const known = Object.entries(values).filter(([, value]) => value !== undefined && value !== null);
  return new URLSearchParams(known).toString();
}

export function viewOfText(text) {
  const {x, y, z, layer, head, colour, cell} = Object.fromEntries(new URLSearchParams(text));
  const number = part => part === undefined || part === "" || part === "all" ? part : Number(part);
  const places = cell?.split(",").map(Number);
  return {
    x: number(x), y: number(y), z: number(z), layer: number(layer), head: number(head), colour,
    cell: places?.length === 2 && places.every(Number.isInteger) ? places : null,
  };
}
