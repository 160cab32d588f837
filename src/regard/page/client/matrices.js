// "Matrices": one head as the documents draw it, from X to Z, with the model's numbers or the textbook's.

import {getJson, query} from "./api.js";
import {colourOf, colourTable} from "./colour.js";
import {openModel} from "./model.js";
import {formulaParts, largestOf, strip, wholeOr} from "./strips.js";
import {asNumber, asPercent, button, make, shownWord, themeNow} from "./ui.js";

const MOST_TERMS = 4; // of a sum that is written out
const [BESIDE, WITH_NUMBERS] = [6, 12]; // columns of matrices that stand side by side, and whose cells show numbers

/** The view "Matrices" in `root`. */
export function openMatrices(root, app) {
  const sources = make("div", {class: "pills", role: "group", "aria-label": "Whose numbers"});
  const body = make("div", {class: "steps-body"});
  const model = openModel(app);
  root.append(make("div", {class: "walked"}, model.element, make("div", {class: "steps-body"}, sources, body)));
  let shown = "";
  let drawn = null;

  async function update() {
    if (!app.reading) return;
    const {book} = app.state;
    const {entry, head, token} = model.update();
    const source = (text, name) => {
      const attributes = {class: "pill", "aria-pressed": String(name === book), click: () => app.change({book: name})};
      return button(attributes, text);
    };
    const textbook = app.about.book.map(sentence => source(`the textbook: ${sentence}`, sentence));
    sources.replaceChildren(source("this text, in the model", ""), ...textbook);
    const address = query("/api/matrices", {reading: app.reading.id, ...(book ? {book} : {entry, head})});
    if (address === shown) return;
    shown = address;
    drawn = null;
    const numbers = await getJson(address).catch(error => ({error}));
    if (shown !== address) return;
    if (numbers.error) return body.replaceChildren(make("p", {class: "card quiet"}, numbers.error.message));
    drawn = matricesOf(numbers);
    body.replaceChildren(...drawn.sections);
    drawn.mark(book ? 0 : token);
  }

  return {
    onReading: () => ((shown = ""), app.state.tab === "matrices" && update()),
    update,
    onShow: update,
    onTheme: () => drawn?.paint(),
    picture: () => body,
  };
}

/** The sections of the matrices of one head, `mark(row)`, which marks a word in all of them, and `paint()`. */
function matricesOf(numbers) {
  const [rows, columns] = [numbers.rows, numbers.columns].map(words => words.map(word => shownWord(word.trim())));
  const {x, memory, q, k, v, scores, scaled, weights, output, scale, visible} = numbers;
  const [above, paints] = [[], []]; // what marks a row in each matrix, and what paints each again
  const sums = make("ol", {class: "sums"});
  const biasOf = name => (numbers[`b_${name.toLowerCase()}`] ? ` + b_${name}` : "");
  let marked = null;

  /** A matrix: its rows are `words` and its columns are the words `over` it, or numbers; `how(i, j)` says where a number
   *  comes from. */
  function matrix(name, table, {words = null, over = null, formula = "", how = null, shares = false, tall = null}) {
    const [across, flat] = [table[0].length, table.flat()];
    const as = shares ? asPercent : asNumber;
    const inWords = over && across <= WITH_NUMBERS;
    const at = n => [Math.floor(n / across), n % across];
    const isHidden = (i, j) => over && visible && !visible[i][j];
    const said = (i, j) => {
      const place = `${name}[${words?.[i] ?? i}, ${over?.[j] ?? j}]`;
      if (isHidden(i, j)) return `${place}: the mask hides ${columns[j]} from ${rows[i]}`;
      return `${place} = ${how ? `${how(i, j)} = ` : ""}${as(table[i][j])}`;
    };
    const most = shares ? 1 : largestOf(flat);
    const made = strip(flat, {
      ...{name, across, most, kind: `strip matrix${inWords ? " numbered" : ""}`, said: n => said(...at(n))},
      tell: n => words === rows && mark(n === null ? marked : at(n)[0], false),
    });
    made.box.style.setProperty("--rows", String(tall ?? table.length));
    made.box.style.setProperty("--across", String(across));
    const cells = make("div", {class: "cells", "aria-hidden": "true", hidden: !inWords});
    const paint = () => {
      made.paint();
      if (!inWords) return;
      const tables = ["high", "negative"].map(end => colourTable(themeNow(), end));
      const texts = flat.map((value, n) => make("span", {}, isHidden(...at(n)) ? "–" : as(value)));
      texts.forEach((text, n) => {
        text.style.color = colourOf(Math.min(Math.abs(flat[n]) / most, 1), tables[Number(flat[n] < 0)]).ink;
      });
      cells.replaceChildren(...texts);
    };
    const line = make("span", {class: "part", hidden: true});
    if (words === rows) above.push(line);
    made.box.append(cells, line);
    paints.push(paint);
    paint();
    const pick = n =>
      button({class: "row-word", click: () => mark(n === marked ? null : n)}, make("bdi", {}, words[n]));
    const named = (kind, texts) => make("div", {class: kind}, ...texts);
    const left =
      words &&
      named(
        "row-words",
        words.map((word, n) => (words === rows ? pick(n) : make("bdi", {}, word))),
      );
    const top =
      over &&
      named(
        "column-words",
        over.map(word => make("bdi", {}, word)),
      );
    const size = make("span", {class: "quiet"}, `${table.length} × ${across}`);
    const head = make("div", {class: "vector-head"}, make("b", {}, ...formulaParts(name)));
    head.append(make("span", {class: "formula"}, ...formulaParts(formula)), size);
    const grid = make("div", {class: "named"}, top, left, made.box);
    return make("div", {class: "vector"}, head, grid, make("p", {class: "quiet said"}, made.readout));
  }

  /** Mark a row in every matrix, or none; `keep` it when the pointer leaves. */
  function mark(row, keep = true) {
    if (keep) marked = row;
    for (const line of above) {
      line.hidden = row === null;
      for (const [key, share] of Object.entries({top: row / rows.length, tall: 1 / rows.length}))
        line.style.setProperty(`--${key}`, String(share));
    }
    if (!v) return;
    const which = row === null ? rows.keys() : [row];
    const sum = i => mixture(i, n => `${asPercent(weights[i][n])} v(${columns[n]})`);
    sums.replaceChildren(...Array.from(which, i => make("li", {}, `z(${rows[i]}) = ${sum(i)}`)));
  }

  /** A sum over the words that a row looks at, the largest shares first. */
  function mixture(i, term) {
    const order = columns.map((_, n) => n).sort((a, b) => weights[i][b] - weights[i][a]);
    return order.slice(0, MOST_TERMS).map(term).join(" + ") + (order.length > MOST_TERMS ? " + …" : "");
  }

  const section = (title, text, ...parts) =>
    make("section", {class: "card step"}, make("h2", {}, title), make("p", {}, text), ...parts);
  const beside = (...parts) => make("div", {class: columns.length > BESIDE ? "vectors wide" : "beside"}, ...parts);
  const source = memory ? "M" : "X"; // of keys and values
  const learned = name => matrix(`W_${name}`, numbers[`w_${name.toLowerCase()}`], {tall: 8});
  const projected = (name, table, words, from) => {
    const formula = x ? `${from} W_${name}${biasOf(name)}` : "";
    const how = (i, j) => `${from}[${words[i]}] · column ${j} of W_${name}${biasOf(name)}`;
    return matrix(name, table, {words, formula, how: x && how});
  };
  const pairs = {words: rows, over: columns};
  const divisor = wholeOr(1 / scale);
  const power = (i, j) => `e^${asNumber(scaled[i][j])}`;
  /** How a share comes from the row of scores; with a bias or a cap of the model's own, that is only said. */
  const shareOf = (i, j) => {
    const sum = columns.reduce((total, _, n) => total + (visible?.[i][n] === false ? 0 : Math.exp(scaled[i][n])), 0);
    if (Math.abs(Math.exp(scaled[i][j]) / sum - weights[i][j]) > 1e-3)
      return "softmax, with what the model adds to scores";
    return `${power(i, j)} ÷ (${mixture(i, n => power(i, n))})`;
  };
  const sections = [
    x && section("X: a row for each word", "The words enter as rows of numbers.", matrix("X", x, {words: rows})),
    memory &&
      section(
        "M: the words that are looked at",
        "What the encoder made of them.",
        matrix("M", memory, {words: columns}),
      ),
    x &&
      section(
        "W: what is learned",
        "The same three matrices for every text.",
        make("div", {class: "beside"}, ...["Q", "K", "V"].map(learned)),
      ),
    section(
      "Q, K, V: what each word asks, answers and gives",
      "Each row is the word's row times a matrix. Point at a number to see where it comes from; choose a word to follow it.",
      ...[
        projected("Q", q, rows, "X"),
        projected("K", k, columns, source),
        v && projected("V", v, columns, source),
      ].filter(Boolean),
    ),
    section(
      "QKᵀ, divided, as shares",
      "Every query meets every key; softmax makes shares of each row, which add up to 100 %.",
      beside(
        matrix("QKᵀ", scores, {...pairs, how: (i, j) => `q(${rows[i]}) · k(${columns[j]})`}),
        matrix(`QKᵀ ÷ ${divisor}`, scaled, {
          ...pairs,
          formula: divisor ** 2 === q[0].length ? `${divisor} = √${q[0].length}` : "",
          how: (i, j) => `${asNumber(scores[i][j])} ÷ ${divisor}`,
        }),
        matrix("softmax", weights, {...pairs, shares: true, how: shareOf}),
      ),
    ),
    output &&
      section(
        "Z: the values, mixed in these shares",
        "The row of a word is a mixture of all values.",
        matrix("Z", output, {
          words: rows,
          formula: "softmax(QKᵀ/√d) V",
          how: (i, j) => mixture(i, n => `${asPercent(weights[i][n])} × ${asNumber(v[n][j])}`),
        }),
        sums,
      ),
  ].filter(Boolean);
  return {sections, mark, paint: () => paints.forEach(paint => paint())};
}
