// The words of a reading, and lines between them whose thickness is the weight. Words are buttons; the lines are one SVG
// behind them. A short sentence is a row of words, a longer sentence a column, a long text has paragraphs.

import {asPercent, button, make, makeSvg, roving, shownWord} from "./ui.js";

const MOST_IN_COLUMNS = 40;
const LEAST_SAID = 0.015; // a smaller share has a line, and its number is in the list
const THICKEST = 22; // pixels, for a weight of 1
const ARC = 104; // pixels above the first row

/** The words of the source and of the target, each with its rows and columns in each kind of attention: words `from` …
 *  `from + most` of each side. */
export function unitsOf(reading, from, most) {
  const {source, target, read} = reading.sides;
  if (!source) return [];
  const own = reading.entries.find(entry => entry.rows === "source")?.kind ?? "encoder";
  const units = wordsOf(source, "source").slice(from, from + most);
  for (const unit of units) {
    unit.rows = {[own]: unit.range};
    unit.columns = {[own]: unit.range, cross: unit.range};
    unit.written = unit.range[0] >= (reading.prompt ?? Infinity);
  }
  if (!target) return units;
  const written = wordsOf(target, "target").slice(from, from + most);
  // The decoder reads a start token and then what it wrote: it reads each word one place later than it wrote it.
  const shift = read ? 1 : 0;
  const length = read ? read.count : target.count;
  for (const unit of written) {
    const place = unit.range.map(n => n + shift);
    unit.rows = {cross: unit.range};
    unit.columns = {};
    if (place[1] <= length) unit.rows.decoder = unit.columns.decoder = place;
  }
  if (read && !from) {
    const [start] = wordsOf(read, "read");
    start.rows = start.columns = {decoder: start.range};
    written.unshift(start);
  }
  return [...units, ...written];
}

function wordsOf(side, name) {
  const {tokens} = side;
  const words = side.words ?? tokens.map((token, n) => [token, n, n + 1]);
  const special = new Set(side.special ?? []);
  for (const [text, start] of words) if (/^(<[^<>\s]+>|\[[A-Z]+\])$/.test(text)) special.add(start); // in a record
  return words.map(([text, start, stop]) => ({
    side: name,
    text: shownWord(text),
    range: [start, stop],
    special: special.has(start),
    // No space is before it: it is set close to the previous word.
    glued:
      start > 0 &&
      !special.has(start) &&
      !special.has(start - 1) &&
      !/^\s/.test(tokens[start]) &&
      !/\s$/.test(tokens[start - 1]),
  }));
}

/** The stage calls `tell.over(unit or null)` when a word is pointed at or focused, `tell.pick(unit)` when it is chosen. */
export class Stage {
  constructor(root, tell) {
    this.tell = tell;
    this.units = [];
    this.svg = makeSvg("svg", {class: "lines", "aria-hidden": "true"});
    this.root = make("div", {class: "stage"}, this.svg);
    root.append(this.root);
    this.root.addEventListener("pointerleave", () => tell.over(null));
    this.root.addEventListener("focusout", event => this.root.contains(event.relatedTarget) || tell.over(null));
    new ResizeObserver(() => this.root.clientWidth !== this.wide && this.layout()).observe(this.root);
  }

  /** Show words. `names` are the headings of the two sides and their languages, `asides` elements beside them. */
  build(units, names, asides = {}) {
    this.units = units;
    this.root.replaceChildren(this.svg);
    this.sentences = new Map();
    const backwards = words =>
      /^\P{L}*[\p{Script=Hebrew}\p{Script=Arabic}\p{Script=Syriac}\p{Script=Thaana}]/u.test(words);
    for (const [side, parts] of [["source", ["source"]], ["target", ["read", "target"]]]) {
      const mine = units.filter(unit => parts.includes(unit.side));
      if (!mine.length) continue;
      const text = mine.map(unit => (unit.special ? "" : unit.text)).join(" ");
      const direction = {lang: names.langs[side] || null, dir: backwards(text) ? "rtl" : null};
      const row = make("div", {class: "sentence", role: "group", "aria-label": `${names[side]}: words`, ...direction});
      for (const unit of mine) row.append(this.button(unit));
      mine.find(unit => unit.side === side).element.tabIndex = 0; // not the start token, which may be hidden
      roving(row, () => [...row.children].filter(button => button.offsetParent));
      const heading = make("h2", {class: "side-name"}, names[side], asides[side] ?? null);
      this.root.append(make("div", {class: `side ${side}`}, heading, row));
      this.sentences.set(side, row);
    }
    this.layout();
  }

  button(unit) {
    const kinds = {special: unit.special, glued: unit.glued, start: unit.side === "read", "written-on": unit.written};
    const classes = ["word", ...Object.keys(kinds).filter(name => kinds[name])].join(" ");
    const place = `${unit.side}.${unit.range[0]}`;
    unit.share = make("span", {class: "share"});
    const attributes = {class: classes, tabindex: -1, "aria-pressed": "false", "data-place": place};
    const listeners = {
      pointerenter: event => event.pointerType !== "touch" && this.tell.over(unit),
      focus: () => this.tell.over(unit),
      click: () => this.tell.pick(unit),
    };
    unit.element = button({...attributes, ...listeners}, make("bdi", {class: "text"}, unit.text), unit.share);
    return unit.element;
  }

  /** Show the text before its reading arrives. */
  preview(side, text) {
    const row = this.sentences?.get(side);
    if (!row) return;
    this.units = [];
    this.svg.replaceChildren();
    const words = text.split(/\s+/).filter(Boolean);
    row.replaceChildren(...words.map(word => make("span", {class: "word"}, shownWord(word))));
  }

  /** Choose rows, columns or paragraphs. */
  layout() {
    this.wide = this.root.clientWidth;
    if (!this.wide || !this.units.length) return;
    const rows = [...this.sentences.values()];
    this.root.dataset.layout = "rows";
    if (rows.some(row => row.scrollWidth > row.clientWidth + 1)) {
      this.root.dataset.layout =
        rows.length > 1 && Math.max(...rows.map(row => row.childElementCount)) <= MOST_IN_COLUMNS
          ? "columns"
          : "paragraphs";
    }
    this.kindOfLayout = this.root.dataset.layout;
    this.measure();
    this.tell.laidOut();
  }

  /** Measure the place of each word. */
  measure() {
    const box = this.root.getBoundingClientRect();
    for (const unit of this.units) {
      const place = unit.element.getBoundingClientRect();
      unit.x = place.left - box.left;
      unit.y = place.top - box.top;
      unit.w = place.width;
      unit.h = place.height;
    }
    const seen = this.units.filter(unit => unit.w);
    const [right, left] = [seen.filter(unit => unit.side === "source"), seen.filter(unit => unit.side !== "source")];
    this.gap = Math.min(...left.map(unit => unit.x)) - Math.max(...right.map(unit => unit.x + unit.w));
    this.svg.setAttribute("width", String(this.wide));
    this.svg.setAttribute("height", String(this.root.scrollHeight));
  }

  /** Draw lines [{from, to, weight, kind, faint}], the thickest on top, and the shares of a `word` at the words. */
  draw(lines, word, kind, aside) {
    if (!this.wide) return; // not on the screen: no word has a place yet
    this.root.dataset.kind = kind;
    const shares = new Map(lines.filter(line => line.from === word).map(line => [line.to, line.weight]));
    const away = new Map(word ? aside.map(({unit, weight}) => [unit, weight]) : []);
    const most = Math.max(...shares.values(), 0);
    for (const unit of this.units) {
      const {classList} = unit.element;
      const share = shares.get(unit) ?? away.get(unit);
      classList.toggle("chosen", unit === word);
      classList.toggle("seen", shares.has(unit));
      classList.toggle("best", most > 0 && shares.get(unit) === most);
      classList.toggle("aside", away.has(unit));
      unit.element.style.setProperty("--share", String(shares.get(unit) ?? 0));
      unit.share.textContent = share >= LEAST_SAID ? asPercent(Math.round(100 * share) / 100) : "";
    }
    this.measure(); // bold words and the lines of another kind take more room
    this.thinOut(shares, away);
    const drawn = lines.filter(line => line.weight >= 0.004);
    drawn.sort((a, b) => Number(b.faint ?? false) - Number(a.faint ?? false) || a.weight - b.weight);
    this.svg.replaceChildren(
      ...drawn.map(line =>
        makeSvg("path", {
          class: line.faint ? "line faint" : "line",
          "data-kind": line.kind,
          d: this.path(line),
          "stroke-width": (0.8 + THICKEST * line.weight * (line.faint ? 0.6 : 1)).toFixed(2),
          "stroke-opacity": (line.faint ? 0.05 + 0.4 * line.weight : 0.3 + 0.7 * Math.sqrt(line.weight)).toFixed(2),
        }),
      ),
    );
  }

  /** Mark the chosen word. */
  press(word) {
    for (const unit of this.units) unit.element.setAttribute("aria-pressed", String(unit === word));
  }

  /** In a row, keep the largest of the shares that would overlap, and all shares that are set aside. */
  thinOut(shares, away) {
    if (this.kindOfLayout !== "rows") return;
    const room = 2 * Number.parseFloat(getComputedStyle(document.documentElement).fontSize);
    const size = unit => (away.has(unit) ? 1 : shares.get(unit));
    const said = this.units.filter(unit => unit.share.textContent).sort((a, b) => size(b) - size(a));
    const kept = [];
    for (const unit of said) {
      const near = other => other.y === unit.y && Math.abs(other.x + other.w / 2 - unit.x - unit.w / 2) < room;
      if (kept.some(near)) unit.share.textContent = "";
      else kept.push(unit);
    }
  }

  path({from, to, kind}) {
    if (this.kindOfLayout === "paragraphs") return inParagraph(from, to);
    const upright = this.kindOfLayout === "rows";
    if (kind === "cross") {
      return upright
        ? curved(from.x + from.w / 2, from.y - 2, to.x + to.w / 2, to.y + to.h + 2, true)
        : curved(from.x - 4, from.y + from.h / 2, to.x + to.w + 4, to.y + to.h / 2, false);
    }
    const below = from.side !== "source"; // the decoder's own lines are below its row, or before its column
    const [[x1, y1], [x2, y2]] = [middle(from), middle(to)];
    if (upright) {
      const point = (along, out) => `${along.toFixed(1)} ${out.toFixed(1)}`;
      return below
        ? arc(x1, x2, from.y + from.h + 2, 1, this.wide, ARC, point)
        : arc(x1, x2, from.y - 2, -1, this.wide, ARC, point);
    }
    const point = (along, out) => `${out.toFixed(1)} ${along.toFixed(1)}`;
    const [high, rise] = [this.root.clientHeight, Math.min(ARC, this.gap - 8)];
    return below
      ? arc(y1, y2, Math.min(from.x, to.x) - 4, -1, high, rise, point)
      : arc(y1, y2, Math.max(from.x + from.w, to.x + to.w) + 4, 1, high, rise, point);
  }
}

const middle = unit => [unit.x + unit.w / 2, unit.y + unit.h / 2];

/** An arc from a to b along one axis that rises from it, higher for words that are further apart. */
function arc(a, b, base, sign, longest, rise, point) {
  if (Math.abs(a - b) < 1) {
    const up = base + sign * 40;
    return `M${point(a - 7, base)}C${point(a - 26, up)} ${point(a + 26, up)} ${point(a + 7, base)}`;
  }
  const high = base + sign * Math.min(rise * (0.22 + 1.15 * Math.sqrt(Math.abs(a - b) / longest)), 1.3 * rise);
  return `M${point(a, base)}C${point(a + 0.12 * (b - a), high)} ${point(b - 0.12 * (b - a), high)} ${point(b, base)}`;
}

/** An S-shaped line between two points that leaves and arrives vertically or horizontally. */
function curved(x1, y1, x2, y2, upright) {
  const [x, y] = [(x1 + x2) / 2, (y1 + y2) / 2];
  const [ax, ay, bx, by] = upright ? [x1, y, x2, y] : [x, y1, x, y2];
  return `M${[x1, y1].map(n => n.toFixed(1)).join(" ")}C${[ax, ay, bx, by, x2, y2].map(n => n.toFixed(1)).join(" ")}`;
}

/** A bow over a line of a paragraph, or a line from one line of the paragraph to another: past the words, not through. */
function inParagraph(from, to) {
  const [x1, x2] = [from.x + from.w / 2, to.x + to.w / 2];
  const down = to.y - from.y;
  if (down > from.h / 2) return curved(x1, from.y + from.h, x2, to.y, true);
  if (down < -from.h / 2) return curved(x1, from.y, x2, to.y + to.h, true);
  const over = from.y - 8 - 0.04 * Math.abs(x2 - x1);
  return `M${x1.toFixed(1)} ${from.y.toFixed(1)}Q${((x1 + x2) / 2).toFixed(1)} ${over.toFixed(1)} ${x2.toFixed(1)} ${to.y.toFixed(1)}`;
}
