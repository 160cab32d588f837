// The view of a map, and how pointer, wheel, fingers and keys move it. A view is {x, y, z}: the token in the middle
// (column x, row y), and the zoom, the logarithm to base 2 of how many pixels a token takes.

const largestCell = 160;  // pixels of a cell at the deepest zoom
const fullCell = 96;  // pixels of a cell when all of a small matrix is shown
const roundCell = 24;  // pixels of a cell from which on cells are square, even if one of the texts is much longer

/** Pixels of a column and of a row. A text much shorter than the other is stretched until its words have room. */
function scalesAt(z, {queries, keys}) {
  const small = 2 ** z;
  const stretched = times => Math.max(small, Math.min(small * times, roundCell));
  const rows = stretched(Math.max(keys / queries / 3, 1)), columns = stretched(Math.max(queries / keys / 3, 1));
  return {columns, rows};
}

/** The zoom at which the whole matrix is seen in width × height pixels. */
function wholeZoom(about, width, height) {
  let low = -24, high = Math.log2(fullCell);
  for (let n = 0; n < 40; n++) {
    const z = (low + high) / 2, scale = scalesAt(z, about);
    if (scale.columns * about.keys > width || scale.rows * about.queries > height) high = z;
    else low = z;
  }
  return low;
}

/** The view between the whole of the matrix and a single cell, with at least half of what fits in sight. */
function boundedView(view, about, plot) {
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
function zoomedView(view, z, [right, down], about) {
  const before = scalesAt(view.z, about), after = scalesAt(z, about);
  return {
    z,
    x: view.x + right / before.columns - right / after.columns,
    y: view.y + down / before.rows - down / after.rows,
  };
}

/** From tokens to pixels and back, for a plot {left, top, width, height}. */
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

/** The level at which a bin of 2 ** level tokens takes about a pixel; 0: single tokens. */
export function levelFor(pixels) {
  return Math.max(0, Math.round(-Math.log2(pixels)));
}

const easeTime = 90, flyTime = 420;  // milliseconds

/** A camera over a matrix; `area()` is the plot on the screen, `changed()` is called when the view changes. */
export function openCamera(about, area, changed) {
  const still = matchMedia("(prefers-reduced-motion: reduce)");
  let view = null, goal = null, flight = null, lastTime = 0;

  const bounded = to => boundedView(to, about, area());
  const wholeNow = () => wholeZoom(about, area().width, area().height);
  const place = (plot = area()) => layout(view, about, plot);
  const fromMiddle = ([x, y]) => [x - area().left - area().width / 2, y - area().top - area().height / 2];
  const isWhole = () => view.z <= wholeNow() + 0.001;

  function set(to) {
    goal = flight = null;
    view = bounded(to);
    changed();
  }

  function fly(to) {
    goal = null;
    if (still.matches) {
      set(to);
      return;
    }
    flight = {from: view, to: bounded(to)};
    changed();
  }

  function showAll() {
    const whole = {x: about.keys / 2, y: about.queries / 2, z: wholeNow()};
    if (flight?.to.z !== whole.z) fly(whole);
  }

  /** Zoom to z, a point of the window staying where it is. */
  function zoomTo(z, point, smooth) {
    const limited = Math.min(z, Math.log2(largestCell)), anchor = fromMiddle(point);
    if (limited <= wholeNow()) {
      showAll();  // in the middle again
      return;
    }
    flight = null;
    if (smooth && !still.matches) goal = {z: limited, anchor};
    else set(zoomedView(view, limited, anchor, about));
    changed();
  }

  /** Advance a flight or a smooth zoom by one step; return whether the view moved. */
  function advance(time) {
    const elapsed = Math.min(time - lastTime, 50);
    lastTime = time;
    if (flight) {
      flight.start ??= time;
      const share = Math.min((time - flight.start) / flyTime, 1), eased = share * share * (3 - 2 * share);
      const {from, to} = flight, z = from.z + (to.z - from.z) * eased;
      // The place moves at a speed that looks constant at every zoom.
      const part = Math.abs(to.z - from.z) < 0.01 ? eased : (2 ** (from.z - z) - 1) / (2 ** (from.z - to.z) - 1);
      view = bounded({z, x: from.x + (to.x - from.x) * part, y: from.y + (to.y - from.y) * part});
      if (share === 1) set(to);
      return true;
    }
    if (!goal) return false;
    const left = goal.z - view.z, near = Math.abs(left) < 0.004;
    const z = near ? goal.z : view.z + left * (1 - Math.exp(-elapsed / easeTime));
    view = bounded(zoomedView(view, z, goal.anchor, about));
    if (near) set(view);
    return true;
  }

  function pan(right, down) {
    if (isWhole()) return;
    const scale = scalesAt(view.z, about);
    set({...view, x: view.x - right / scale.columns, y: view.y - down / scale.rows});
  }

  /** How far a cell lies outside of the plot without a margin, in pixels: [right, down], 0 where it is inside. */
  function outside([row, column], margin) {
    const {left, top, width, height} = area(), at = layout(flight?.to ?? view, about, area());
    const over = (start, size, from, room) =>
      Math.min(start - from - margin, 0) || Math.max(start + size - from - room + margin, 0);
    return [over(at.x(column), at.scale.columns, left, width), over(at.y(row), at.scale.rows, top, height)];
  }

  return {
    get view() {
      return view;
    },
    /** The view at the end of a flight or smooth zoom. */
    get target() {
      return flight?.to ?? (goal ? {...view, z: goal.z} : view);
    },
    place, set, fly, showAll, zoomTo, advance, pan,
    /** Zoom by a factor about a cell, if it is in sight, or the middle. */
    zoomBy(factor, cell) {
      const {left, top, width, height} = area(), at = place();
      const seen = cell && outside(cell, 0).every(each => !each);
      const point = seen ? [at.x(cell[1] + 0.5), at.y(cell[0] + 0.5)] : [left + width / 2, top + height / 2];
      zoomTo((goal?.z ?? view.z) + Math.log2(factor), point, true);
    },
    /** Zoom by a factor where a pointer is. */
    zoomAt(factor, point, smooth) {
      zoomTo((smooth && goal ? goal.z : view.z) + Math.log2(factor), point, smooth);
    },
    /** Move as little as needed to have a cell in sight. */
    keepInSight(cell) {
      const [right, down] = outside(cell, 24);
      if (right || down) pan(-right, -down);
    },
    /** Fly to a cell that is not in sight. */
    flyTo(cell) {
      if (outside(cell, 40).some(Boolean)) fly({x: cell[1] + 0.5, y: cell[0] + 0.5, z: view.z});
    },
  };
}

const tapSlack = 6;  // pixels that a click or a tap may move
const tapTime = 500;  // milliseconds that it may take

/**
 * Listen on an element: on.pan(right, down), on.zoom(factor, [x, y], smooth), on.tap([x, y]), on.hover([x, y] or null),
 * on.key(event) → true if it handled the key, on.wheel() → whether the wheel zooms now. Points are pixels from the
 * element's corner. Returns a function that stops listening.
 */
export function listenToGestures(element, on) {
  const pointers = new Map();
  let tap = null;
  const pointOf = event => {
    const box = element.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  };

  function down(event) {
    if (event.pointerType === "mouse" && event.button !== 0) return;
    element.setPointerCapture(event.pointerId);
    pointers.set(event.pointerId, pointOf(event));
    tap = pointers.size === 1 ? {from: pointOf(event), time: event.timeStamp} : null;
  }

  function move(event) {
    const to = pointOf(event), from = pointers.get(event.pointerId);
    if (!from) {
      if (event.pointerType === "mouse") on.hover(to);
      return;
    }
    if (tap && Math.hypot(to[0] - tap.from[0], to[1] - tap.from[1]) <= tapSlack) return;
    tap = null;
    if (pointers.size === 1) on.pan(to[0] - from[0], to[1] - from[1]);
    else {
      const [other] = [...pointers].filter(([id]) => id !== event.pointerId).map(([, point]) => point);
      const middle = point => [(point[0] + other[0]) / 2, (point[1] + other[1]) / 2];
      const apart = point => Math.max(Math.hypot(point[0] - other[0], point[1] - other[1]), 1);
      const [before, after] = [middle(from), middle(to)];
      on.pan(after[0] - before[0], after[1] - before[1]);
      on.zoom(apart(to) / apart(from), after, false);
    }
    pointers.set(event.pointerId, to);
  }

  function up(event) {
    if (!pointers.delete(event.pointerId)) return;
    if (event.type === "pointerup" && tap && event.timeStamp - tap.time <= tapTime) on.tap(tap.from);
    tap = null;
  }

  function wheel(event) {
    if (!on.wheel(event)) return;
    event.preventDefault();
    const unit = event.deltaMode === 1 ? 16 : event.deltaMode === 2 ? 400 : 1;
    if (event.shiftKey && !event.ctrlKey) {
      on.pan(-(event.deltaX || event.deltaY) * unit, 0);
      return;
    }
    const amount = Math.max(Math.min(event.deltaY * unit, 240), -240);  // a pinch on a touchpad comes with ctrlKey
    on.zoom(Math.exp(-amount * (event.ctrlKey ? 0.01 : 0.0022)), pointOf(event), !event.ctrlKey);
  }

  const key = event => {
    if (on.key(event)) event.preventDefault();
  };
  const listeners = {
    pointerdown: down, pointermove: move, pointerup: up, pointercancel: up, pointerleave: () => on.hover(null),
    wheel, keydown: key,
  };
  for (const [name, listener] of Object.entries(listeners)) {
    element.addEventListener(name, listener, name === "wheel" ? {passive: false} : undefined);
  }
  return () => {
    for (const [name, listener] of Object.entries(listeners)) element.removeEventListener(name, listener);
  };
}
