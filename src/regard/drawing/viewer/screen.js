// The canvas of a map: requests the tiles in sight, chooses their colours, and draws a frame after every change.

import {levelFor} from "./camera.js";
import {colourLookup, colourRange, colourTable} from "./colour.js";
import {canvasPainter, svgPainter} from "./painters.js";
import {deepestLevel, inSight, paintScene, plotIn} from "./scene.js";
import {tilesIn, tileSpec, tileStore} from "./tiles.js";

const titleHeight = 28;  // pixels above a picture that is saved
const pollTime = 750, failedTime = 4100;  // milliseconds
const colourNames = ["ground", "paper", "line", "grid", "ink", "muted", "accent", "on-accent", "mark", "marked"];

/**
 * A screen inside of `surface`. `camera()` and `shown()` return what it draws: {tokens, choice, mode, cell, hover, marks}.
 * `resized(first)` is called when its size has changed.
 */
export function openScreen(root, surface, feed, camera, shown, resized) {
  const {about} = feed, canvas = document.createElement("canvas");
  canvas.setAttribute("aria-hidden", "true");
  surface.prepend(canvas);
  const context = canvas.getContext("2d", {alpha: false});
  let width = 0, height = 0, asked = 0, polled = 0, closed = false;
  let style = null, range = null, looked = {}, share = 1, problem = "";
  const store = tileStore(feed, schedule, message => {
    problem = message;
    setTimeout(schedule, failedTime);
  });

  function schedule() {
    if (!asked && !closed) asked = requestAnimationFrame(frame);
  }

  function frame(time) {
    asked = 0;
    if (!width || !camera().view || closed) return;
    const moving = camera().advance(time), scene = sceneIn(plotIn(width, height));
    const {absent, partial} = askForTiles(scene), missing = absent + partial;
    chooseRange(scene, absent);
    const wait = share < 1 ? `the rest is being read: ${Math.floor(100 * share)} %` : missing ? "being computed …" : "";
    Object.assign(scene, {range, lookup: lookup(), footing: problem || wait});
    const ratio = devicePixelRatio || 1;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.fillStyle = style.colours.ground;
    context.fillRect(0, 0, width, height);
    const settled = paintScene(canvasPainter(context), scene);
    if (moving || !settled) schedule();
    root.dataset.state = missing || moving || !settled ? "busy" : "idle";
  }

  function sceneIn(plot) {
    const at = camera().place(plot), level = [levelFor(at.scale.rows), levelFor(at.scale.columns)];
    return {at, about, level, store, ...shown(), colours: style.colours, table: style.table};
  }

  /** Request the tiles in sight, and first a tile of the whole matrix; return how many are missing. */
  function askForTiles({at, level, choice}) {
    const sight = inSight(at, about), wanted = tilesIn(choice, level, sight.rows, sight.columns);
    const base = baseSpec(choice, level);
    const missing = store.want(store.get(base.key) ? wanted : [base, ...wanted]);
    if (missing.partial) pollReady(choice);
    else share = 1;
    if (!missing.absent) problem = "";
    return missing;
  }

  function baseSpec(choice, level) {
    return tileSpec(choice, level.map(each => each + deepestLevel(about, level)), 0, 0);
  }

  function pollReady(choice) {
    polled ||= setTimeout(async () => {
      share = await feed.ready(choice.heads).catch(() => share);
      polled = 0;
      schedule();
    }, pollTime);
  }

  /** Choose the range of colours once all tiles in sight are there, so that colours do not flicker. */
  function chooseRange({at, level, choice, mode}, absent) {
    if (absent && range?.mode === mode && range.chosen) return;
    const sight = inSight(at, about), specs = tilesIn(choice, level, sight.rows, sight.columns);
    const tiles = specs.map(spec => store.get(spec.key)).filter(Boolean), base = store.get(baseSpec(choice, level).key);
    const found = tiles.length || !base ? tiles : [base];
    if (!found.length && range?.mode === mode) return;
    const largest = Math.max(0, ...found.map(tile => tile.largest));
    const small = Math.min(Infinity, ...found.map(tile => tile.small).filter(each => each > 0));
    range = {...colourRange(mode, largest, Number.isFinite(small) ? small : 0), chosen: largest > 0};
  }

  /** The colours of all values, the same object until the range or the theme has changed. */
  function lookup() {
    const key = `${style.scheme} ${range.mode} ${range.low} ${range.high}`;
    if (looked.key !== key) looked = {key, lookup: colourLookup(range, style.table)};
    return looked.lookup;
  }

  function readStyle() {
    const colour = text => {  // as the browser computes it, in the theme of the canvas
      canvas.style.color = text;
      return getComputedStyle(canvas).color;
    };
    const scheme = colour("light-dark(white, black)") === colour("white") ? "light" : "dark";
    const colours = Object.fromEntries(
      colourNames.map(name => [name.replace("-a", "A"), colour(`var(--map-${name})`)]));
    style = {scheme, table: colourTable(scheme), colours};
    schedule();
  }

  function resize() {
    const box = surface.getBoundingClientRect(), ratio = devicePixelRatio || 1, first = !width;
    [width, height] = [Math.round(box.width), Math.round(box.height)];
    if (!width || !height) return;
    [canvas.width, canvas.height] = [Math.round(width * ratio), Math.round(height * ratio)];
    resized(first);
    cancelAnimationFrame(asked);
    frame(performance.now());  // at once: a resized canvas is blank
  }

  const darkness = matchMedia("(prefers-color-scheme: dark)");
  const themes = new MutationObserver(readStyle), sizes = new ResizeObserver(resize);
  darkness.addEventListener("change", readStyle);
  for (const node of [document.documentElement, document.body, root]) {
    themes.observe(node, {attributes: true, attributeFilter: ["data-theme", "class"]});
  }
  readStyle();
  sizes.observe(surface);

  /** Draw the screen under its title. */
  function paintSaved(paint, title) {
    const plot = plotIn(width, height), scene = sceneIn({...plot, top: plot.top + titleHeight});
    Object.assign(scene, {range, lookup: lookup(), footing: "", hover: null});
    while (!paintScene(canvasPainter(scratch(width, height)), scene));  // until all tiles have their colours
    paint.rect(0, 0, width, height + titleHeight, style.colours.ground);
    paintScene(paint, scene);
    paint.text(10, 20, title, {size: 14, bold: true, fill: style.colours.ink});
  }

  function scratch(wide, tall) {
    return Object.assign(document.createElement("canvas"), {width: wide, height: tall}).getContext("2d");
  }

  return {
    schedule, scene: () => sceneIn(plotIn(width, height)), area: () => plotIn(width, height),
    say(message) {
      problem = message;
      schedule();
    },
    svg(title) {
      const paint = svgPainter(width, height + titleHeight, title);
      paintSaved(paint, title);
      return paint.finish();
    },
    png(title) {
      const ratio = Math.max(devicePixelRatio || 1, 2);
      const drawn = scratch(width * ratio, (height + titleHeight) * ratio);
      drawn.scale(ratio, ratio);
      paintSaved(canvasPainter(drawn), title);
      return new Promise(resolve => drawn.canvas.toBlob(resolve, "image/png"));
    },
    close() {
      closed = true;
      cancelAnimationFrame(asked);
      clearTimeout(polled);
      sizes.disconnect();
      themes.disconnect();
      darkness.removeEventListener("change", readStyle);
      store.close();
    },
  };
}
