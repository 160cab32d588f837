// Mouse, wheel, fingers and keys on a map, as a few plain calls.

const tapSlack = 6;  // pixels that a click or a tap may move
const tapTime = 500;  // milliseconds that it may take

/**
 * Listen on an element: on.pan(right, down), on.zoom(factor, [x, y], smooth), on.tap([x, y]), on.hover([x, y] or null),
 * on.key(event) → true if it was one of its keys, on.wheel() → whether the wheel zooms now. Points are pixels from the
 * element's corner. Gives a function that stops listening.
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
