// What a map looks like: tiles, numbers in cells, rulers of words on both sides, and the scale of colours.

import {colourOf, percentOf, shareOf} from "./colour.js";
import {inOneLine} from "./feeds.js";
import {fittedText, textWidth} from "./painters.js";
import {tileBins, tilePicture, tileSpec} from "./tiles.js";

const wordHeight = 15;  // pixels of a row or column from which on every word is named
const numberCell = [44, 18], wordCell = [96, 52];  // pixels of a cell with its number, and with its words
const turned = 58;  // degrees of words above narrow columns
const recoloured = 8;  // tiles that get new colours in one frame, at most

/** The parts of a picture of width × height: the plot, its rulers, and the legend under it. */
export function plotIn(width, height) {
  const left = Math.round(Math.min(Math.max(width * 0.14, 76), 190)), narrow = width < 600;
  const top = narrow ? 64 : 84, bottom = 40, margin = narrow ? 18 : 8;  // the last word leans into the margin
  return {left, top, margin, width: Math.max(width - left - margin, 40), height: Math.max(height - top - bottom, 40)};
}

/**
 * Draw a scene: {at (a layout), about, choice, level, store, tokens, range, table, lookup, colours, marks, cell, hover,
 * footing}. Returns whether all tiles have their colours.
 */
export function paintScene(paint, scene) {
  const {at, about, colours} = scene, {plot} = at;
  const area = {
    left: Math.max(at.x(0), plot.left), right: Math.min(at.x(about.keys), plot.left + plot.width),
    top: Math.max(at.y(0), plot.top), bottom: Math.min(at.y(about.queries), plot.top + plot.height),
  };
  let settled = true;
  paint.rect(plot.left, plot.top, plot.width, plot.height, colours.ground);
  paint.clipped(plot.left, plot.top, plot.width, plot.height, () => {
    paint.rect(area.left, area.top, area.right - area.left, area.bottom - area.top, colours.paper);
    settled = paintTiles(paint, scene);
    paintGrid(paint, scene, area);
    paintBands(paint, scene, area);
    paintNumbers(paint, scene, area);
    paintOutlines(paint, scene);
  });
  paint.outline(area.left - 0.5, area.top - 0.5, area.right - area.left + 1, area.bottom - area.top + 1, colours.line);
  paintRows(paint, scene, area);
  paintColumns(paint, scene, area);
  paintLegend(paint, scene, area);
  return settled;
}

/** The first and the last row and column in sight, as [start, stop]. */
export function inSight(at, about) {
  const {left, top, width, height} = at.plot;
  const span = (start, stop, count) => [Math.max(Math.floor(start), 0), Math.min(Math.ceil(stop), count)];
  return {
    rows: span(at.row(top), at.row(top + height), about.queries),
    columns: span(at.column(left), at.column(left + width), about.keys),
  };
}

/** The tile that shows a bin, or the nearest coarser one that is there: {tile, level}. */
function tileAt(store, choice, level, row, column, deepest) {
  for (let up = 0; up <= deepest; up++) {
    const coarser = level.map(each => each + up);
    const number = (token, axis) => Math.floor(token / (tileBins * 2 ** coarser[axis]));
    const tile = store.get(tileSpec(choice, coarser, number(row, 0), number(column, 1)).key);
    if (tile) return tile;
  }
  return null;
}

/** The value at a row and a column as it is drawn now: {value, size: tokens of its bin}; null where no tile is. */
export function valueAt({store, choice, level, about}, row, column) {
  const tile = tileAt(store, choice, level, row, column, deepestLevel(about, level));
  if (!tile) return null;
  const size = tile.level.map(each => 2 ** each);
  const i = Math.floor(row / size[0]) - tile.row * tileBins, j = Math.floor(column / size[1]) - tile.column * tileBins;
  return {value: tile.values[i * tileBins + j], size};
}

/** The number of levels above a level, up to a single tile of the whole matrix. */
export function deepestLevel(about, level) {
  const tiles = Math.max(about.queries / (tileBins * 2 ** level[0]), about.keys / (tileBins * 2 ** level[1]));
  return Math.max(Math.ceil(Math.log2(tiles)), 0);
}

function paintTiles(paint, {at, about, choice, level, store, lookup}) {
  const sight = inSight(at, about), size = level.map(each => tileBins * 2 ** each);
  const deepest = deepestLevel(about, level);
  let budget = recoloured, settled = true;
  for (let row = Math.floor(sight.rows[0] / size[0]); row * size[0] < sight.rows[1]; row++) {
    for (let column = Math.floor(sight.columns[0] / size[1]); column * size[1] < sight.columns[1]; column++) {
      const tile = tileAt(store, choice, level, row * size[0], column * size[1], deepest);
      if (!tile) continue;
      let picture = tile.picture;
      if (tile.lookup !== lookup) {
        if (!picture || budget-- > 0) picture = tilePicture(tile, lookup);
        else settled = false;
      }
      const part = [  // of this tile's place that is in sight, in tokens
        Math.max(row * size[0], sight.rows[0]), Math.min((row + 1) * size[0], sight.rows[1]),
        Math.max(column * size[1], sight.columns[0]), Math.min((column + 1) * size[1], sight.columns[1]),
      ];
      const units = tile.level.map(each => 2 ** each);
      const [top, bottom] = [part[0], part[1]].map(token => token / units[0] - tile.row * tileBins);
      const [left, right] = [part[2], part[3]].map(token => token / units[1] - tile.column * tileBins);
      const [x, y] = [Math.round(at.x(part[2])), Math.round(at.y(part[0]))];
      const bin = Math.min(at.scale.columns * units[1], at.scale.rows * units[0]);
      const smooth = bin < 1 || tile.level[0] > level[0];
      const to = [x, y, Math.round(at.x(part[3])) - x, Math.round(at.y(part[1])) - y];
      paint.image(picture, [left, top, right - left, bottom - top], to, smooth);
    }
  }
  return settled;
}

function paintGrid(paint, {at, about, colours}, area) {
  const sight = inSight(at, about);
  if (Math.min(at.scale.columns, at.scale.rows) < 9) return;
  const segments = [];
  for (let row = sight.rows[0]; row <= sight.rows[1]; row++) {
    segments.push([area.left, Math.round(at.y(row)) + 0.5, area.right, Math.round(at.y(row)) + 0.5]);
  }
  for (let column = sight.columns[0]; column <= sight.columns[1]; column++) {
    segments.push([Math.round(at.x(column)) + 0.5, area.top, Math.round(at.x(column)) + 0.5, area.bottom]);
  }
  paint.lines(segments, colours.grid);
}

function paintNumbers(paint, scene, area) {
  const {at, about, table, range, tokens, colours} = scene, {columns: width, rows: height} = at.scale;
  if (width < numberCell[0] || height < numberCell[1] || scene.level.some(each => each)) return;
  const sight = inSight(at, about), words = width >= wordCell[0] && height >= wordCell[1];
  const size = Math.min(Math.max(width / 6.5, 9.5), words ? 17 : 13);
  for (let row = sight.rows[0]; row < sight.rows[1]; row++) {
    for (let column = sight.columns[0]; column < sight.columns[1]; column++) {
      const found = valueAt(scene, row, column);
      if (!found || found.size[0] > 1 || found.size[1] > 1) continue;
      const ink = found.value > 0 ? colourOf(shareOf(found.value, range), table).ink : colours.muted;
      const x = at.x(column + 0.5), y = at.y(row + 0.5);
      const text = fittedText(percentOf(found.value), width - 4, size);
      const half = (words ? width : textWidth(text, size)) / 2 - 8;
      if (x - half < area.left || x + half > area.right) continue;  // a number that is cut off would be wrong
      paint.text(x, y + size * (words ? 0.75 : 0.36), text, {size, fill: ink, align: "center"});
      if (!words) continue;
      const pair = [tokens.rows.get(row), tokens.columns.get(column)].map(token => inOneLine(token ?? ""));
      const room = (width - 22) / 2, small = 11;
      const texts = pair.map(word => fittedText(word, room, small));
      paint.text(x, y - 6, texts.join(" → "), {size: small, fill: ink, align: "center"});
    }
  }
}

/** The rows or columns of a word that is followed, and lines from the open cell to its words. */
function paintBands(paint, {at, about, marks, cell, colours}, area) {
  const rows = marks.side === "rows", size = rows ? at.scale.rows : at.scale.columns;
  const [first, last] = inSight(at, about)[marks.side];
  const band = (place, fill, line) => {
    const start = rows ? at.y(place) : at.x(place);
    if (size < 5) {  // too thin for two lines
      const middle = start + size / 2 - Math.max(size, 2) / 2, thick = Math.max(size, 2);
      if (rows) paint.rect(area.left, middle, area.right - area.left, thick, fill);
      else paint.rect(middle, area.top, thick, area.bottom - area.top, fill);
      return;
    }
    paint.lines([start, start + size].map(edge =>
      rows ? [area.left, edge, area.right, edge] : [edge, area.top, edge, area.bottom]), line, 1.5);
  };
  for (const place of marks.places) {
    if (place >= first && place < last && place !== marks.current) band(place, colours.mark, colours.marked);
  }
  if (marks.current !== null) band(marks.current, colours.marked, colours.accent);
  if (!cell || at.scale.columns >= numberCell[0]) return;  // no line through numbers
  const x = at.x(cell[1] + 0.5), y = at.y(cell[0] + 0.5);
  paint.lines([[area.left, y, x, y], [x, area.top, x, y]], colours.marked, 1.5);
}

/** The open cell, and the one under the pointer. */
function paintOutlines(paint, {at, cell, hover, colours}) {
  for (const [spot, stroke, thickness] of [[hover, colours.ink, 1], [cell, colours.accent, 2.5]]) {
    if (!spot) continue;
    const [wide, tall] = [Math.max(at.scale.columns, 8), Math.max(at.scale.rows, 8)];
    paint.outline(at.x(spot[1] + 0.5) - wide / 2, at.y(spot[0] + 0.5) - tall / 2, wide, tall, stroke, thickness);
  }
}

/** Some words from a token on, as they read; null until they have arrived. */
function passageFrom(tokens, start, stop) {
  let text = "";
  for (let n = start; n < Math.min(start + 16, stop) && text.length < 80; n++) {
    const token = tokens.get(n);
    if (token === undefined) return null;
    text += token;
  }
  return text.replace(/\s+/g, " ").trim();
}

/** A round number of tokens between two names on a ruler. */
function stepFor(pixels, room) {
  const least = room / pixels, unit = 10 ** Math.floor(Math.log10(least));
  return Math.max(unit * [1, 2, 5, 10].find(times => times * unit >= least), 1);
}

/** A word in a box on a ruler, where not every word has room. */
function paintPlace(paint, tokens, place, colours, room, position) {
  const word = fittedText(inOneLine(tokens.get(place) ?? "…"), room, 12.5, true);
  const width = textWidth(word, 12.5, true) + 10;
  const [x, y] = position(width);
  paint.rect(x, y, width, 19, colours.accent);
  paint.text(x + 5, y + 14, word, {size: 12.5, bold: true, fill: colours.onAccent});
}

function paintRows(paint, {at, about, tokens, colours, marks, cell, hover}, area) {
  const {plot} = at, edge = Math.round(area.left), room = Math.min(edge - 14, 280), every = at.scale.rows >= wordHeight;
  const narrow = room < 130, [first, last] = inSight(at, about).rows;
  const step = every ? 1 : stepFor(at.scale.rows, narrow ? 40 : 30), strong = [cell?.[0], hover?.[0]];
  paint.clipped(0, plot.top - 10, edge, plot.height + 20, () => {
    for (let row = Math.ceil(first / step) * step; row < last; row += step) {
      const y = at.y(row + (every ? 0.5 : 0));
      if (every) {
        if (y < plot.top + 3 || y > plot.top + plot.height - 3) continue;
        const bold = strong.includes(row) || (marks.side === "rows" && marks.current === row);
        const word = fittedText(inOneLine(tokens.rows.get(row) ?? "…"), room, 12.5, bold);
        const fill = bold ? colours.accent : colours.ink;
        paint.text(edge - 8, y + 4.5, word, {size: 12.5, bold, fill, align: "right"});
        continue;
      }
      paint.lines([[edge - 6, Math.round(y) + 0.5, edge - 1, Math.round(y) + 0.5]], colours.muted);
      const name = row.toLocaleString("en"), left = narrow ? 0 : textWidth(name, 11) + 9;
      const text = about.numbered?.rows ? "" : passageFrom(tokens.rows, row, about.queries);
      const passage = text && fittedText(text, room - left, 11.5);
      if (passage) paint.text(edge - 10 - left, y + 4, passage, {size: 11.5, fill: colours.ink, align: "right"});
      const lower = narrow && passage ? 17 : 4;
      paint.text(edge - 10, y + lower, name, {size: 11, fill: colours.muted, align: "right"});
    }
    const spot = (cell ?? hover)?.[0];
    if (every || spot === undefined || spot < first || spot >= last) return;
    const y = Math.min(Math.max(at.y(spot + 0.5) - 9, plot.top), plot.top + plot.height - 19);
    paintPlace(paint, tokens.rows, spot, colours, room - 10, width => [edge - 8 - width, y]);
  });
}

function paintColumns(paint, {at, about, tokens, colours, marks, cell, hover}, area) {
  const {plot} = at, edge = Math.round(area.top), every = at.scale.columns >= wordHeight, wide = at.scale.columns >= 54;
  const [first, last] = inSight(at, about).columns, step = every ? 1 : stepFor(at.scale.columns, 118);
  const strong = [cell?.[1], hover?.[1]], angle = turned * Math.PI / 180, end = plot.left + plot.width + plot.margin;
  const room = Math.min(edge - 16, 130) / Math.sin(angle);
  paint.clipped(plot.left - 4, 0, plot.width + plot.margin + 4, edge, () => {
    for (let column = Math.ceil(first / step) * step; column < last; column += step) {
      const x = at.x(column + (every ? 0.5 : 0));
      if (every) {
        if (x < plot.left + 2 || x > plot.left + plot.width - 2) continue;
        const bold = strong.includes(column) || (marks.side === "columns" && marks.current === column);
        const word = inOneLine(tokens.columns.get(column) ?? "…"), fill = bold ? colours.accent : colours.ink;
        const style = {size: 12.5, bold, fill};
        const leaning = Math.min(room, (end - x - 8) / Math.cos(angle));  // as far as the edge of the picture
        const fitted = fittedText(word, wide ? at.scale.columns - 6 : leaning, 12.5, bold);
        if (wide) paint.text(x, edge - 9, fitted, {...style, align: "center"});
        else paint.text(x + 4, edge - 8, fitted, {...style, turn: -turned});
        continue;
      }
      const line = Math.round(x) + 0.5, left = Math.min(step * at.scale.columns, end - x) - 12;
      paint.lines([[line, edge - 34, line, edge - 1]], colours.line);
      paint.text(x + 5, edge - 24, column.toLocaleString("en"), {size: 11, fill: colours.muted});
      const text = about.numbered?.columns ? "" : passageFrom(tokens.columns, column, about.keys);
      if (text) paint.text(x + 5, edge - 9, fittedText(text, left, 11.5), {size: 11.5, fill: colours.ink});
    }
    const spot = (cell ?? hover)?.[1];
    if (every || spot === undefined || spot < first || spot >= last) return;
    paintPlace(paint, tokens.columns, spot, colours, 150, width => {
      const x = Math.max(at.x(spot + 0.5) - width / 2, plot.left);
      return [Math.min(x, plot.left + plot.width - width), edge - 56];
    });
  });
  const corner = {size: 11, fill: colours.muted, align: "right"};
  if (area.left < 92) return;
  paint.text(area.left - 10, edge - 24, "is looked at →", corner);
  paint.text(area.left - 10, edge - 9, "looks ↓", corner);
}

function paintLegend(paint, {at, range, table, colours, level, footing}, area) {
  const {plot} = at, y = plot.top + plot.height + 14, right = plot.left + plot.width;
  const left = Math.round(Math.max(Math.min(area.left, right - 320), plot.left));
  const wide = Math.round(Math.min((right - left) * 0.45, 180)), steps = 60;
  for (let n = 0; n < steps; n++) {
    const x = left + Math.round(n * wide / steps);
    paint.rect(x, y, left + Math.round((n + 1) * wide / steps) - x, 9, colourOf(n / (steps - 1), table).fill);
  }
  paint.outline(left + 0.5, y + 0.5, wide - 1, 8, colours.line);
  const small = {size: 11, fill: colours.muted}, log = range.mode === "log";
  paint.text(left, y + 22, log ? `≤ ${legendNumber(range.low)}` : "0", small);
  paint.text(left + wide, y + 22, legendNumber(range.high), {...small, align: "right"});
  const size = level.map(each => 2 ** each), single = level.every(each => each === 0), room = right - left - wide - 16;
  const halves = single ? ["Single weights"] : ["A pixel is the mean", `of ${size[0]} × ${size[1]} weights`];
  const whole = textWidth(halves.join(" "), 11) <= room ? [halves.join(" ")] : halves;
  [...whole, footing].filter(Boolean).forEach((text, line) => {
    paint.text(left + wide + 16, y + 9 + 13 * line, fittedText(text, room, 11), small);
  });
}

function legendNumber(value) {
  return percentOf(value).replace(/(\.\d*?)0+(?= |$)/, "$1").replace(". ", " ");
}
