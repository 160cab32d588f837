// Save and share: the screen as SVG or PNG, the map as one HTML file, or the address of the view. The SVG is made from the
// page itself: every visible box, line of text and canvas, in the colours of the screen.

import {getBlob, headsOf, query} from "./api.js";
import {filled, handOver} from "./elements.js";
import {later, makeSvg, roving} from "./ui.js";

const TWICE = 2; // pixels of a PNG for each pixel of the page

/** The menu behind the button "Save". */
export function saveMenu(app) {
  const button = document.getElementById("save");
  const menu = document.getElementById("save-menu");
  const items = [...menu.querySelectorAll("button")];
  const told = document.getElementById("told");
  const hush = later(() => (told.textContent = ""), 4000);

  function show(open) {
    menu.hidden = !open;
    button.setAttribute("aria-expanded", String(open));
  }

  button.addEventListener("click", () => {
    show(menu.hidden);
    if (!menu.hidden) items[0].focus();
  });
  document.addEventListener("click", event => menu.parentElement.contains(event.target) || show(false));
  menu.addEventListener("keydown", event => {
    if (event.key === "Escape" || event.key === "Tab") show(false);
    if (event.key === "Escape") button.focus();
  });
  roving(menu, () => items);
  for (const item of items) {
    item.addEventListener("click", async () => {
      show(false);
      button.focus();
      try {
        told.textContent = await ways[item.dataset.save]();
        hush();
      } catch (error) {
        app.trouble(error);
      }
    });
  }

  const name = () => `regard-${app.state.tab}`;
  const ways = {
    async link() {
      app.writeAddress();
      if (!navigator.clipboard) return "The address bar has it: copy it from there."; // browsers have none over plain http
      await navigator.clipboard.writeText(location.href);
      return "The address of this view is copied.";
    },
    async svg() {
      handOver(new Blob([svgNow()], {type: "image/svg+xml"}), `${name()}.svg`);
      return "Saved as SVG.";
    },
    async png() {
      const map = app.state.tab === "map" && app.views.map.map();
      handOver(map ? await map.png() : await pngOf(svgNow()), `${name()}.png`);
      return "Saved as PNG.";
    },
    async html() {
      if (!app.reading) return "There is nothing to save yet.";
      const {kind, heads} = app.state;
      const names = heads[kind]?.length ? heads[kind] : headsOf(app.reading, kind);
      const values = {reading: app.reading.id, heads: names.join(",")};
      handOver(await getBlob(query("/api/save", values)), "regard-map.html");
      return "Saved as one HTML file.";
    },
  };

  function svgNow() {
    const map = app.state.tab === "map" && app.views.map.map();
    return map ? map.svg() : svgOf(app.views[app.state.tab].picture());
  }
}

async function pngOf(svg) {
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(svg)}`;
  await image.decode();
  const canvas = document.createElement("canvas");
  canvas.width = TWICE * image.width;
  canvas.height = TWICE * image.height;
  const pen = canvas.getContext("2d");
  pen.scale(TWICE, TWICE);
  pen.drawImage(image, 0, 0);
  return new Promise(resolve => canvas.toBlob(resolve, "image/png"));
}

/** A part of the page as a standalone SVG. */
function svgOf(root) {
  const box = root.getBoundingClientRect();
  const paper = getComputedStyle(document.body);
  const [width, height] = [Math.ceil(box.width), Math.ceil(box.height)];
  const space = "http://www.w3.org/2000/svg";
  const svg = makeSvg("svg", {xmlns: space, width, height, viewBox: `0 0 ${width} ${height}`});
  svg.append(makeSvg("rect", {width, height, fill: paper.backgroundColor}));
  addElement(svg, root, box);
  return new XMLSerializer().serializeToString(svg);
}

function addElement(svg, element, box) {
  const style = getComputedStyle(element);
  if (!element.checkVisibility({visibilityProperty: true}) || element.classList.contains("regard-unseen")) return;
  const place = element.getBoundingClientRect();
  const {width, height} = place;
  const [x, y] = [place.left - box.left, place.top - box.top];
  if (element.matches("svg[role=img]")) return svg.append(filled(element.cloneNode(true), {x, y, width, height}, []));
  if (element instanceof SVGSVGElement) return addLines(svg, element, x, y);
  addBox(svg, style, x, y, place);
  if (element instanceof HTMLCanvasElement) {
    const pixels = {href: element.toDataURL(), "image-rendering": "pixelated", preserveAspectRatio: "none"};
    svg.append(makeSvg("image", {x, y, width, height, ...pixels}));
  }
  if (element instanceof HTMLInputElement && element.type === "range")
    return addSlider(svg, element, style, x, y, place);
  if (element instanceof HTMLSelectElement)
    return addText(svg, element.selectedOptions[0]?.textContent ?? "", style, x + 8, y + height / 2);
  for (const child of element.childNodes) {
    if (child.nodeType === Node.TEXT_NODE) addLinesOfText(svg, child, style, box);
    else if (child.nodeType === Node.ELEMENT_NODE) addElement(svg, child, box);
  }
}

function addBox(svg, style, x, y, {width, height}) {
  const clear = /^(transparent|rgba\(.*, 0\))$/;
  const border = Number.parseFloat(style.borderTopWidth);
  const filled = !clear.test(style.backgroundColor);
  if (!width || !height || (!filled && !(border && !clear.test(style.borderTopColor)))) return;
  svg.append(
    makeSvg("rect", {
      x: x + border / 2,
      y: y + border / 2,
      width: Math.max(width - border, 0),
      height: Math.max(height - border, 0),
      rx: Math.min(Number.parseFloat(style.borderTopLeftRadius) || 0, height / 2),
      fill: filled ? style.backgroundColor : "none",
      stroke: border ? style.borderTopColor : "none",
      "stroke-width": border,
    }),
  );
}

function addSlider(svg, input, style, x, y, {width, height}) {
  const share = (Number(input.value) - Number(input.min)) / (Number(input.max) - Number(input.min));
  const [middle, colour] = [y + height / 2, style.accentColor === "auto" ? style.color : style.accentColor];
  const line = {d: `M${x} ${middle}h${width}`, stroke: colour, "stroke-width": 3, "stroke-opacity": 0.5};
  svg.append(makeSvg("path", line), makeSvg("circle", {cx: x + share * width, cy: middle, r: 7, fill: colour}));
}

function addLines(svg, drawing, x, y) {
  const group = makeSvg("g", {transform: `translate(${x} ${y})`});
  for (const path of drawing.querySelectorAll("path, circle")) {
    const style = getComputedStyle(path);
    const copy = path.cloneNode();
    copy.removeAttribute("class");
    for (const name of ["fill", "stroke", "stroke-width", "stroke-opacity", "stroke-linecap"])
      copy.setAttribute(name, style.getPropertyValue(name));
    group.append(copy);
  }
  svg.append(group);
}

/** A text node, line by line as it is broken on the page. */
function addLinesOfText(svg, node, style, box) {
  const text = node.textContent;
  if (!text.trim()) return;
  const range = document.createRange();
  let line = "";
  let last = null;
  const flush = () =>
    last && line.trim() && addText(svg, line.trim(), style, last.left - box.left, last.top - box.top + last.height / 2);
  for (let n = 0; n < text.length; n++) {
    range.setStart(node, n);
    range.setEnd(node, n + 1);
    const [place] = range.getClientRects();
    if (!place || !place.width || (!line.trim() && !text[n].trim())) {
      line += text[n];
    } else if (last && Math.abs(place.top - last.top) < place.height / 2) {
      line += text[n];
      last = {left: Math.min(last.left, place.left), top: last.top, height: last.height};
    } else {
      flush();
      line = text[n];
      last = {left: place.left, top: place.top, height: place.height};
    }
  }
  flush();
}

function addText(svg, text, style, x, y) {
  const place = {x: x.toFixed(1), y: y.toFixed(1), "dominant-baseline": "central", fill: style.color};
  const names = ["font-size", "font-weight", "font-style", "font-family"];
  const font = Object.fromEntries(names.map(name => [name, style.getPropertyValue(name)]));
  svg.append(makeSvg("text", {...place, ...font}, text));
}
