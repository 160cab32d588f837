// The numbers of a map: from a file, or from the Python object behind a notebook (the page of `regard serve` has its feed in
// map_tab.js). Each feed has
//   about                                 {title, queries, keys, same, entries: [{name, kind, layer, heads}], note, …}
//   parallel, local                       how many tiles can be requested at once; whether it computes in this page
//   tile({heads, rows, columns, bins, signal}) → Promise of a Float32Array; heads are pairs [entry, head]
//   tokens(side, start, stop) → Promise of texts;  find(side, text) → Promise of positions
//   ready(heads) → Promise of the share of the coarse levels that is computed;  close()

import {decodeBlock, weightsPool} from "./weights.js";

/** The tokens at which a text begins, in any case: as whole words or, where there are none, as parts of words. */
function findInTokens(tokens, text, limit = 1000) {
  const wanted = text.toLowerCase().trim().replace(/\s+/g, " ");
  if (!wanted) return [];
  const lowered = tokens.map(token => token.toLowerCase().replace(/[\n\t]/g, " "));
  const starts = [0];
  for (const token of lowered) starts.push(starts[starts.length - 1] + token.length);
  const joined = lowered.join(""), letter = /[\p{L}\p{N}]/u;
  const whole = new Set(), parts = new Set();
  let token = 0;
  for (let at = joined.indexOf(wanted); at >= 0 && whole.size < limit; at = joined.indexOf(wanted, at + 1)) {
    while (starts[token + 1] <= at) token++;
    const after = at + wanted.length;
    const cut = (one, other) => letter.test(joined[one] ?? "") && letter.test(joined[other] ?? "");
    if (!cut(at - 1, at) && !cut(after - 1, after)) whole.add(token);
    else if (parts.size < limit) parts.add(token);
  }
  return [...(whole.size ? whole : parts)];
}

/** A token in one line, for a ruler or a cell: line ends and a single space are drawn as symbols. */
export function inOneLine(token) {
  return token.trim() || token.replaceAll("\n", "↵").replaceAll("\t", "⇥").replaceAll(" ", "␣") || "∅";
}

const tokenPiece = 1024;

/** The tokens of one side: get(n) gives a text, or requests it and returns undefined until `changed()` is called. */
export function tokenCache(feed, side, count, changed) {
  const pieces = new Map();
  const piece = number => {
    if (!pieces.has(number)) {
      const held = {tokens: null};
      held.promise = feed.tokens(side, number * tokenPiece, Math.min((number + 1) * tokenPiece, count)).then(tokens => {
        held.tokens = tokens;
        changed();
        return tokens;
      }).catch(() => {
        setTimeout(() => pieces.delete(number), 3000);
        return [];
      });
      pieces.set(number, held);
    }
    return pieces.get(number);
  };
  return {
    get: n => piece(Math.floor(n / tokenPiece)).tokens?.[n % tokenPiece],
    /** Some tokens, once they are there. */
    async range(start, stop) {
      const from = Math.max(start, 0), to = Math.min(stop, count), found = [];
      for (let number = Math.floor(from / tokenPiece); number * tokenPiece < to; number++) {
        found.push(...await piece(number).promise);
      }
      const skipped = Math.floor(from / tokenPiece) * tokenPiece;
      return found.slice(from - skipped, to - skipped);
    },
  };
}

/** The feed of a page that holds all numbers: {about, blocks}, as `Packed` in viewer.py. */
export function fileFeed({about, blocks}) {
  const arrays = new Map();
  const array = name => {
    if (!arrays.has(name)) arrays.set(name, decodeBlock(blocks[name]));
    return arrays.get(name);
  };
  const {tokens: texts, heads, ...shown} = about;
  const place = new Map(heads.map((head, n) => [`${head.entry}.${head.head}`, n]));
  const words = {};
  const allTokens = side => {
    const name = texts[side];
    if (!name) return Promise.resolve(null);
    words[name] ??= array(name).then(bytes => JSON.parse(new TextDecoder().decode(bytes)));
    return words[name];
  };
  const pyramids = [];
  let pool = null;

  async function openPool() {
    const specs = await Promise.all(heads.map(async head => {
      const {mask} = head, named = names => Promise.all(names.map(array));
      const [query, key, normaliser] = await named([head.query, head.key, head.normaliser]);
      const side = async places => places.values ? {values: await array(places.values)} : places;
      return {
        query, key, normaliser, width: blocks[head.query].shape[1], scale: head.scale, softcap: head.softcap,
        mask: {
          rows: await side(mask.rows), columns: await side(mask.columns), bands: mask.bands,
          kept: await named(mask.kept), ids: await Promise.all(mask.ids.map(named)),
          added: await Promise.all(mask.added.map(async ({by, values}) =>
            ({by, values: await array(values), bool: blocks[values].dtype === "uint8"}))),
        },
      };
    }));
    return weightsPool(specs);
  }

  function pyramid(number) {
    pyramids[number] ??= array(heads[number].level.values).then(codes =>
      levelPyramid(codes, heads[number].level, about.queries, about.keys));
    return pyramids[number];
  }

  return {
    about: shown,
    local: true,
    get parallel() {
      return pool?.opened?.parallel ?? 1;
    },
    async tile({heads: asked, rows, columns, bins}) {
      const numbers = asked.map(pair => place.get(pair.join(".")));
      const sizes = [(rows[1] - rows[0]) / bins[0], (columns[1] - columns[0]) / bins[1]];
      const level = heads[numbers[0]].level;
      if (level && sizes.every(size => size >= level.size && size % level.size === 0) &&
          rows[0] % sizes[0] === 0 && columns[0] % sizes[1] === 0) {
        return meanOf(await Promise.all(numbers.map(async n => levelTile(await pyramid(n), rows, columns, bins))));
      }
      pool ??= openPool().then(opened => (pool.opened = opened));
      return (await pool).tile({heads: numbers, rows, columns, bins});
    },
    async tokens(side, start, stop) {
      const known = await allTokens(side);
      return known ? known.slice(start, stop) : numberedTokens(start, stop);
    },
    async find(side, text) {
      return findInTokens(await allTokens(side) ?? [], text);
    },
    ready: async () => 1,
    close: () => pool?.then(opened => opened.close()),
  };
}

function numberedTokens(start, stop) {
  return Array.from({length: stop - start}, (_, n) => ` ${start + n}`);
}

/** Sums of bins of size, 2 · size, 4 · size, … tokens, from one byte for each of the finest. */
function levelPyramid(codes, {size, low, high}, queries, keys) {
  const rows = Math.ceil(queries / size), columns = Math.ceil(keys / size);
  const means = Float32Array.from({length: 256}, (_, n) =>
    n === 0 ? 0 : n === 255 ? NaN : low * (high / low) ** ((n - 1) / 253));
  const sums = new Float32Array(rows * columns);
  for (let i = 0, at = 0; i < rows; i++) {
    const height = Math.min(size, queries - i * size);
    for (let j = 0; j < columns; j++, at++) sums[at] = means[codes[at]] * height * Math.min(size, keys - j * size);
  }
  const levels = [{size, rows, columns, sums}];
  for (let finer = levels[0]; Math.max(finer.rows, finer.columns) > 1; finer = levels[levels.length - 1]) {
    const coarser = {size: 2 * finer.size, rows: Math.ceil(finer.rows / 2), columns: Math.ceil(finer.columns / 2)};
    coarser.sums = new Float32Array(coarser.rows * coarser.columns);
    for (let i = 0, at = 0; i < finer.rows; i++) {
      const to = (i >> 1) * coarser.columns;
      for (let j = 0; j < finer.columns; j++, at++) coarser.sums[to + (j >> 1)] += finer.sums[at];
    }
    levels.push(coarser);
  }
  return {levels, queries, keys};
}

/** A tile whose bins are whole bins of a level. */
function levelTile({levels, queries, keys}, rows, columns, bins) {
  const sizes = [(rows[1] - rows[0]) / bins[0], (columns[1] - columns[0]) / bins[1]];
  const level = levels.findLast(each => sizes.every(size => size % each.size === 0));
  const values = new Float32Array(bins[0] * bins[1]), steps = sizes.map(size => size / level.size);
  const top = rows[0] / level.size, left = columns[0] / level.size;
  for (let i = 0, at = 0; i < bins[0]; i++) {
    const height = Math.min(sizes[0], queries - rows[0] - i * sizes[0]);
    for (let j = 0; j < bins[1]; j++, at++) {
      const width = Math.min(sizes[1], keys - columns[0] - j * sizes[1]);
      if (height <= 0 || width <= 0) continue;
      const [firstRow, firstColumn] = [top + i * steps[0], left + j * steps[1]];
      const lastRow = Math.min(firstRow + steps[0], level.rows), last = Math.min(firstColumn + steps[1], level.columns);
      let sum = 0;
      for (let row = firstRow; row < lastRow; row++) {
        for (let column = firstColumn; column < last; column++) sum += level.sums[row * level.columns + column];
      }
      values[at] = sum / (height * width);
    }
  }
  return values;
}

function meanOf(tiles) {
  if (tiles.length === 1) return tiles[0];
  return tiles[0].map((_, n) => tiles.reduce((sum, tile) => sum + tile[n], 0) / tiles.length);
}

/** The Python object behind a notebook's widget: questions and answers with a number each. */
export function widgetFeed(model) {
  const waiting = new Map();
  let last = 0;
  const listen = (answer, buffers) => {
    const {resolve, reject} = waiting.get(answer.id) ?? {};
    waiting.delete(answer.id);
    if (answer.error) reject?.(new Error(answer.error));
    else resolve?.({answer: answer.answer, buffers});
  };
  model.on("msg:custom", listen);
  const ask = (name, values) => new Promise((resolve, reject) => {
    waiting.set(++last, {resolve, reject});
    model.send({id: last, ask: name, ...values});
  });
  return {
    about: model.get("about"),
    parallel: 2,
    async tile({heads, rows, columns, bins}) {
      const {buffers: [view]} = await ask("tile", {heads, rows, columns, bins});
      return new Float32Array(view.buffer.slice(view.byteOffset, view.byteOffset + view.byteLength));
    },
    tokens: async (side, start, stop) => (await ask("tokens", {side, start, stop})).answer,
    find: async (side, text) => (await ask("find", {side, text})).answer,
    ready: async heads => (await ask("ready", {heads})).answer,
    close: () => model.off("msg:custom", listen),
  };
}
