// Where a map looks, and how that moves: at once, smoothly after a wheel or a button, or in a flight to another place.

import {boundedView, largestCell, layout, scalesAt, wholeZoom, zoomedView} from "./geometry.js";

const easeTime = 90, flyTime = 420;  // milliseconds

/** A camera over a matrix; `area()` is the plot on the screen, `changed()` is called when the view has, or will. */
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

  /** A step of whatever moves; whether something did. */
  function advance(time) {
    const elapsed = Math.min(time - lastTime, 50);
    lastTime = time;
    if (flight) {
      flight.start ??= time;
      const share = Math.min((time - flight.start) / flyTime, 1), eased = share * share * (3 - 2 * share);
      const {from, to} = flight, z = from.z + (to.z - from.z) * eased;
      // The place moves as fast as it seems to at the zoom of that moment.
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
    /** Where it is going, or is. */
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
