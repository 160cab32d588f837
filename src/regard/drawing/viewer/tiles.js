// Tiles of a map: 256 × 256 bins of 1, 2, 4, … tokens, requested when they come into sight and kept for a while.

import {colourPixels} from "./colour.js";

export const tileBins = 256;
const keptTiles = 240;
const retryTime = 700, failTime = 4000;  // milliseconds until an incomplete or failed tile is requested again

/** Fetches and keeps tiles; `changed()` is called when a tile arrives, `failed(message)` when it cannot be fetched. */
export function tileStore(feed, changed, failed) {
  const tiles = new Map(), running = new Map(), failures = new Map();
  let clock = 0, closed = false;

  function start(spec) {
    const abort = new AbortController(), size = [2 ** spec.level[0], 2 ** spec.level[1]];
    const range = (number, axis) => [number * tileBins * size[axis], (number + 1) * tileBins * size[axis]];
    running.set(spec.key, abort);
    feed.tile({
      heads: spec.heads, rows: range(spec.row, 0), columns: range(spec.column, 1), bins: [tileBins, tileBins],
      signal: abort.signal,
    }).then(values => {
      tiles.set(spec.key, {...spec, ...tileStatistics(values), values, used: ++clock, arrived: performance.now()});
      failures.delete(spec.key);
    }, error => {
      if (abort.signal.aborted) return;
      failures.set(spec.key, performance.now());
      failed(error.message);
    }).finally(() => {
      if (running.get(spec.key) === abort) running.delete(spec.key);
      if (closed) return;
      forget();
      changed();
    });
  }

  function forget() {
    if (tiles.size <= keptTiles) return;
    const oldest = [...tiles.values()].sort((one, other) => one.used - other.used);
    for (const tile of oldest.slice(0, tiles.size - keptTiles)) tiles.delete(tile.key);
  }

  return {
    /** A tile that is there. */
    get(key) {
      const tile = tiles.get(key);
      if (tile) tile.used = ++clock;
      return tile;
    },
    /**
     * Request tiles, the most important first, and abort all other requests. Returns how many tiles are missing
     * (`absent`), and how many have gaps (`partial`).
     */
    want(specs) {
      const keys = new Set(specs.map(spec => spec.key)), now = performance.now();
      for (const [key, abort] of running) {
        if (keys.has(key)) continue;
        abort.abort();
        running.delete(key);
      }
      for (const spec of specs) {
        if (running.size >= feed.parallel) break;
        const tile = tiles.get(spec.key);
        const there = tile && (tile.complete || now - tile.arrived < retryTime);
        if (!there && !running.has(spec.key) && !(now - failures.get(spec.key) < failTime)) start(spec);
      }
      const there = specs.map(spec => tiles.get(spec.key)).filter(Boolean);
      return {absent: specs.length - there.length, partial: there.filter(tile => !tile.complete).length};
    },
    close() {
      closed = true;
      for (const abort of running.values()) abort.abort();
    },
  };
}

/** The largest value, a small value (1 % of the values above 0 are smaller), and whether all are known. */
function tileStatistics(values) {
  let largest = 0, complete = true, positive = 0;
  for (const value of values) {
    if (value > 0) positive++;
    else if (value !== value) complete = false;
    if (value > largest) largest = value;
  }
  const step = Math.ceil(positive / 1000), sample = [];
  let count = 0;
  for (const value of values) if (value > 0 && count++ % step === 0) sample.push(value);
  sample.sort((one, other) => one - other);
  return {largest, small: sample[Math.floor(sample.length / 100)] ?? 0, complete};
}

/** The picture of a tile in these colours, drawn again when they change. */
export function tilePicture(tile, lookup) {
  if (tile.lookup === lookup) return tile.picture;
  tile.picture ??= Object.assign(document.createElement("canvas"), {width: tileBins, height: tileBins});
  const context = tile.picture.getContext("2d");
  const image = context.createImageData(tileBins, tileBins);
  colourPixels(tile.values, lookup, new Uint32Array(image.data.buffer));
  context.putImageData(image, 0, 0);
  tile.lookup = lookup;
  return tile.picture;
}

/** The tiles of one level that touch a range of rows and columns, the nearest to the middle first. */
export function tilesIn(choice, level, rows, columns) {
  const size = level.map(each => tileBins * 2 ** each), specs = [];
  const [middleRow, middleColumn] = [rows, columns].map(([start, stop]) => (start + stop) / 2);
  for (let row = Math.floor(rows[0] / size[0]); row * size[0] < rows[1]; row++) {
    for (let column = Math.floor(columns[0] / size[1]); column * size[1] < columns[1]; column++) {
      const far = Math.hypot((row + 0.5) - middleRow / size[0], (column + 0.5) - middleColumn / size[1]);
      specs.push({...tileSpec(choice, level, row, column), far});
    }
  }
  return specs.sort((one, other) => one.far - other.far);
}

export function tileSpec(choice, level, row, column) {
  return {key: `${choice.name}/${level}/${row}/${column}`, heads: choice.heads, level, row, column};
}
