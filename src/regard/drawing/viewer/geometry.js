// Where a token lies on the screen. A view is {x, y, z}: the token in the middle (column x, row y), and the zoom, the
// logarithm to base 2 of how many pixels a token takes.

export const largestCell = 160;  // pixels of a cell at the deepest zoom
const fullCell = 96;  // pixels of a cell when all of a small matrix is shown
const roundCell = 24;  // from here on cells are square, however long one of the texts is

/** Pixels of a column and of a row. A text much shorter than the other is stretched until its words have room. */
export function scalesAt(z, {queries, keys}) {
  const small = 2 ** z;
  const stretched = times => Math.max(small, Math.min(small * times, roundCell));
  const rows = stretched(Math.max(keys / queries / 3, 1)), columns = stretched(Math.max(queries / keys / 3, 1));
  return {columns, rows};
}

/** The zoom at which the whole matrix is seen in width × height pixels. */
export function wholeZoom(about, width, height) {
  let low = -24, high = Math.log2(fullCell);
  for (let n = 0; n < 40; n++) {
    const z = (low + high) / 2, scale = scalesAt(z, about);
    if (scale.columns * about.keys > width || scale.rows * about.queries > height) high = z;
    else low = z;
  }
  return low;
}

/** The view between the whole of the matrix and a single cell, with at least half of what fits in sight. */
export function boundedView(view, about, plot) {
  const whole = wholeZoom(about, plot.width, plot.height);
  const z = Math.min(Math.max(view.z, whole), Math.log2(largestCell)), scale = scalesAt(z, about);
  const inside = (middle, count, pixels) => {
    const over = Math.max(pixels - count, 0) / 2;  // in tokens
    return Math.min(Math.max(middle, -over), count + over);
  };
  return {
    z,
    x: inside(view.x, about.keys, plot.width / scale.columns),
    y: inside(view.y, about.queries, plot.height / scale.rows),
  };
}

/** The view with another zoom in which a point of the plot, in pixels from its middle, stays where it is. */
export function zoomedView(view, z, [right, down], about) {
  const before = scalesAt(view.z, about), after = scalesAt(z, about);
  return {
    z,
    x: view.x + right / before.columns - right / after.columns,
    y: view.y + down / before.rows - down / after.rows,
  };
}

/** What lies where: pixels of tokens and tokens of pixels, for a plot {left, top, width, height}. */
export function layout(view, about, plot) {
  const scale = scalesAt(view.z, about);
  const middleX = plot.left + plot.width / 2, middleY = plot.top + plot.height / 2;
  return {
    scale, plot,
    x: column => middleX + (column - view.x) * scale.columns,
    y: row => middleY + (row - view.y) * scale.rows,
    column: x => view.x + (x - middleX) / scale.columns,
    row: y => view.y + (y - middleY) / scale.rows,
  };
}

/** Bins of 2 ** level tokens, so that one takes about a pixel; 0: single tokens. */
export function levelFor(pixels) {
  return Math.max(0, Math.round(-Math.log2(pixels)));
}
