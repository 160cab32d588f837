// The view of all heads: the words of a text in two columns, joined by the largest weights of each head in its colour.

import {percentOf} from "./colour.js";
import {element} from "./elements.js";
import {inOneLine} from "./feeds.js";
import {decodeBlock, fromHalves} from "./weights.js";

const rowHeight = 22, listed = 12, ends = {rows: 0.35, columns: 0.65};  // shares of the width, between which lines are
const hint = "Hover over a word to see its weights, click to keep it. Click a head to switch it, double-click for it alone.";

/** Open the view in `root`; `about` and `blocks` are those of `_HeadsFeed.packed` in attention_lines.py. */
function openHeads(root, about, blocks) {
  const on = new Set();  // places of the heads that are shown
  let layer = null, data = null, hovered = null, pinned = about.start;
  const menu = element("select", {change: show}), swatches = element("span", {class: "map-buttons"});
  const canvas = element("canvas"), words = element("div"), panel = element("aside", {class: "map-panel"});
  const body = element("div", {class: "heads-body", scroll: draw, pointermove: hover, pointerleave: hover, click}, words);
  menu.append(...about.layers.map((each, n) => element("option", {value: n}, `${each.kind}, layer ${each.layer}`)));
  root.classList.add("regard-map");
  panel.style.minHeight = "46%";  // below the words, a panel that grew would push them away from the pointer
  root.append(
    element("div", {class: "map-bar"}, element("label", {class: "map-field"}, "Attention", menu), swatches),
    element("div", {class: "map-body"}, element("div", {class: "map-plot"}, canvas, body), panel),
    element("p", {class: "map-note"}, about.kept ? `The ${about.kept} largest weights of each row` : "All weights",
      ", as they are: no sink is set aside. The stronger a line, the larger its weight."));

  async function show() {
    const n = menu.value, next = about.layers[n], names = [`weights${n}`, `keys${n}`, next.rows, next.columns];
    root.dataset.state = "busy";
    const [bits, keys, rows, columns] = await Promise.all(names.map(name => decodeBlock(blocks[name])));
    if (about.layers[menu.value] !== next) return;  // another layer was chosen meanwhile
    const texts = bytes => JSON.parse(new TextDecoder().decode(bytes)).map(inOneLine);
    data = {weights: fromHalves(bits), keys, rows: texts(rows), columns: texts(columns), heads: next.heads.length};
    data.kept = keys.length / (data.rows.length * data.heads);
    words.style.height = `${Math.max(data.rows.length, data.columns.length) * rowHeight}px`;
    if (!layer && pinned) body.scrollTop = pinned.place * rowHeight - body.clientHeight / 2;
    if (layer && layer.kind !== next.kind) pinned = null;
    if (layer?.heads.length !== next.heads.length) {
      on.clear();
      next.heads.forEach((_, n) => on.add(n));
    }
    layer = next;
    swatches.replaceChildren(...layer.heads.map((head, n) => {
      const node = element("button", {type: "button", "aria-label": `head ${head}`,
        click: () => choose(other => on.has(other) !== (other === n)),
        dblclick: () => choose(on.size === 1 && on.has(n) ? () => true : other => other === n)}, head);
      node.style.borderLeft = `12px solid light-dark(${about.colours[n % about.colours.length].join()})`;
      return node;
    }));
    choose(n => on.has(n));
    root.dataset.state = "idle";
  }

  function choose(isOn) {
    const chosen = layer.heads.map((_, n) => isOn(n));  // all are asked before any changes
    chosen.forEach((pressed, n) => {
      on[pressed ? "add" : "delete"](n);
      swatches.children[n].setAttribute("aria-pressed", String(pressed));
      swatches.children[n].style.opacity = pressed ? 1 : 0.35;
    });
    draw();
  }

  function draw() {
    if (!data) return;
    const chosen = hovered ?? pinned, isRow = chosen?.side === "rows", shares = new Map(), pen = canvas.getContext("2d");
    const {scrollTop: top, clientHeight: height, clientWidth: width} = body, shift = 12 / Math.max(data.heads, 8);
    const first = Math.max(Math.floor(top / rowHeight) - 2, 0), last = first + Math.ceil(height / rowHeight) + 4;
    const colours = [...swatches.children].map(node => getComputedStyle(node).borderLeftColor);
    Object.assign(canvas, {width: canvas.clientWidth * devicePixelRatio, height: height * devicePixelRatio});
    pen.scale(devicePixelRatio, devicePixelRatio);
    pen.lineWidth = 2;
    const [from, to] = isRow ? [chosen.place, chosen.place + 1] : chosen ? [0, Infinity] : [first, last];
    for (const head of on) {
      const aside = (head - data.heads / 2) * shift - top + rowHeight / 2;  // lines of heads beside each other
      for (let row = from; row < Math.min(to, data.rows.length); row++) {
        for (let at = (head * data.rows.length + row) * data.kept, end = at + data.kept; at < end; at++) {
          const column = data.keys[at], weight = data.weights[at], other = isRow ? column : row;
          if (column < 0 || (chosen && !isRow && column !== chosen.place)) continue;
          if (chosen) shares.set(other, (shares.get(other) ?? 0) + weight / on.size);
          if (weight < 0.004) continue;  // weaker than one level of 255
          [pen.globalAlpha, pen.strokeStyle] = [weight, colours[head]];
          pen.beginPath();
          pen.moveTo(ends.rows * width, row * rowHeight + aside);
          pen.lineTo(ends.columns * width, column * rowHeight + aside);
          pen.stroke();
        }
      }
    }
    words.replaceChildren(...Object.keys(ends).flatMap(side => data[side].slice(first, last).map((text, n) => {
      const share = chosen && chosen.side !== side && shares.get(first + n), quiet = {class: "map-quiet"};
      const isChosen = chosen?.side === side && chosen.place === first + n;
      const node = element("span", {"data-side": side, "aria-current": isChosen}, text,
        share ? element("small", quiet, ` ${percentOf(share)}`) : null);
      Object.assign(node.style, {top: `${(first + n) * rowHeight}px`, [side === "rows" ? "right" : "left"]: "65%"});
      if (share) node.style.background = `color-mix(in srgb, var(--map-accent) ${60 * share}%, transparent)`;
      return node;
    })));
    panel.replaceChildren(...(chosen ? summary(chosen, isRow, [...shares].sort((a, b) => b[1] - a[1])) : [hint]));
  }

  /** The words that a word looks at, or is looked at by: also those that are off the screen. */
  function summary({side, place}, isRow, shares) {
    const rest = shares.slice(0, listed).reduce((left, [, share]) => left - share, 1), others = data[isRow ? "columns" : "rows"];
    const quiet = text => element("p", {class: "map-quiet"}, text);
    return [element("h2", {}, element("q", {}, data[side][place]), isRow ? " looks at" : " is looked at by"),
      quiet(`token ${place}, ${on.size === 1 ? `head ${layer.heads[[...on][0]]}` : `mean of ${on.size} heads`}`),
      ...shares.slice(0, listed).map(([other, share]) => element("div", {}, `${percentOf(share)} ${others[other]} `,
        element("small", {class: "map-quiet"}, other))),
      ...(isRow && on.size && rest > 5e-4 ? [quiet(`${percentOf(rest)} all others`)] : [])];
  }

  function hover({type, clientX, clientY}) {
    const {left, top, width} = words.getBoundingClientRect(), x = (clientX - left) / width, before = hovered;
    const side = x < ends.rows ? "rows" : x > ends.columns ? "columns" : "", place = Math.floor((clientY - top) / rowHeight);
    hovered = type !== "pointerleave" && data?.[side]?.[place] !== undefined ? {side, place} : null;
    if (before?.side !== hovered?.side || before?.place !== hovered?.place) draw();
  }

  function click() {
    pinned = hovered;
    draw();
  }

  new ResizeObserver(draw).observe(body);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  show();
}

const blocks = Object.fromEntries([...document.querySelectorAll("script[data-block]")].map(({dataset, textContent}) =>
  [dataset.block, {dtype: dataset.dtype, shape: dataset.shape.split(" ").map(Number), text: textContent}]));
const about = JSON.parse(document.getElementById("regard-about").textContent);
document.body.prepend(element("h1", {}, about.title || "All heads"));
openHeads(document.getElementById("regard-map"), about, blocks);
