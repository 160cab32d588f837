// Hover and picking in a saved picture: words carry data-pick, marks carry data-row, data-column and data-head; picking a
// word fades all other marks. LEVELS is the number of steps in which the numbers behind an image are stored.
(function (root, rasters, labels) {
  const svg = root.querySelector("svg"), tip = root.querySelector(".regard-tip");
  const marks = [...svg.querySelectorAll("[data-mark]")], handles = [...svg.querySelectorAll("[data-pick]")];
  const said = new Map();
  for (const title of [...svg.querySelectorAll("title")]) {
    said.set(title.parentNode, title.textContent);
    title.remove();
  }
  let pinned = null;
  function show(handle) {
    for (const other of handles) other.style.fontWeight = other === handle ? "bold" : "";
    const [axis, place] = handle ? handle.dataset.pick.split(":") : [];
    for (const mark of marks) {
      mark.style.opacity = !handle ? "" : mark.dataset[axis] === place ? "1" : "0.04";
    }
  }
  for (const handle of handles) {
    handle.style.cursor = "pointer";
    handle.addEventListener("pointerenter", () => pinned || show(handle));
    handle.addEventListener("pointerleave", () => pinned || show(null));
    handle.addEventListener("click", () => { pinned = pinned === handle ? null : handle; show(pinned || handle); });
  }
  function number(raster, row, column) {
    const place = 2 * (row * raster.shape[1] + column);
    const level = raster.bytes.charCodeAt(place) + 256 * raster.bytes.charCodeAt(place + 1);
    const value = raster.low + (raster.high - raster.low) * level / LEVELS;
    return level > LEVELS ? "nan" : Math.abs(value) < 0.001 && value ? value.toExponential(1) : value.toPrecision(3);
  }
  for (const raster of rasters) raster.bytes = atob(raster.values);
  function text(event) {
    if (!(event.target instanceof Element)) return "";
    const place = event.target.dataset.raster;
    if (place === undefined) {
      for (let at = event.target; at && at !== root; at = at.parentNode) if (said.has(at)) return said.get(at);
      return "";
    }
    const raster = rasters[place], box = event.target.getBoundingClientRect();
    const spot = (from, size, count) => Math.min(Math.max(Math.floor(count * from / size), 0), count - 1);
    const row = spot(event.clientY - box.top, box.height, raster.shape[0]);
    const column = spot(event.clientX - box.left, box.width, raster.shape[1]);
    const names = [labels[raster.rows]?.[row], labels[raster.columns]?.[column]];
    return raster.name + "\n" + names.map(name => "\u2068" + name + "\u2069").join(" \u2192 ") + ": " +
      number(raster, row, column);
  }
  svg.addEventListener("pointermove", event => {
    const words = text(event);
    tip.hidden = !words;
    tip.textContent = words;
    tip.style.left = Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 4) + "px";
    tip.style.top = Math.min(event.clientY + 16, innerHeight - tip.offsetHeight - 4) + "px";
  });
  svg.addEventListener("pointerleave", () => { tip.hidden = true; });
  const frames = [...svg.querySelectorAll("[data-frame]")];
  if (frames.length > 1) {
    const slider = document.createElement("input");
    Object.assign(slider, {type: "range", min: 0, max: frames.length - 1, value: frames.length - 1});
    slider.className = "regard-film";
    slider.setAttribute("aria-label", "frame");
    slider.addEventListener("input", () => frames.forEach((frame, n) => {
      frame.setAttribute("display", n === +slider.value ? "inline" : "none");
    }));
    root.insertBefore(slider, svg);
  }
  const keep = root.querySelector(".regard-keep");
  if (keep) keep.addEventListener("click", () => {
    const copy = new Blob([new XMLSerializer().serializeToString(svg)], {type: "image/svg+xml"});
    const link = document.createElement("a");
    link.href = URL.createObjectURL(copy);
    link.download = "picture.svg";
    link.click();
  });
})
