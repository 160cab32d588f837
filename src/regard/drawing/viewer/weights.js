// The weights of any part of a matrix, from queries, keys and normalisers: weight = exp(score - normaliser of its row).
// The matrix itself is never stored. The functions here also run in a worker, so they use nothing of a page and no
// constants outside of themselves.

import {fromHalves} from "./blocks.js";

/** A head to compute with, from what a file carries of it; with three tokens more, so that blocks of four never end. */
export function openHead(spec) {
  const {mask, width} = spec;
  const queries = spec.query.length / width, keys = spec.key.length / width;
  const padded = bits => {
    const numbers = new Float32Array(bits.length + 3 * width);
    numbers.set(fromHalves(bits));
    return numbers;
  };
  const places = (side, count) =>
    side.values ?? Int32Array.from({length: count}, (_, n) => side.start + n * side.step);
  return {
    query: padded(spec.query), key: padded(spec.key), queries, keys, width,
    scale: spec.scale, softcap: spec.softcap, normaliser: spec.normaliser,
    rowAt: places(mask.rows, queries), columnAt: places(mask.columns, keys),
    bands: mask.bands, kept: mask.kept, ids: mask.ids, added: mask.added,
    inOrder: mask.columns.step === 1,  // then a band shows each query one run of keys
    onlyBands: mask.columns.step === 1 && !mask.kept.length && !mask.ids.length && !mask.added.length,
  };
}

/** What a mask adds to the score of a query and a key: a number, or -Infinity where the key is hidden. */
export function maskAdds(head, row, column) {
  const apart = head.columnAt[column] - head.rowAt[row];
  for (const [lowest, highest] of head.bands) {
    if ((lowest !== null && apart < lowest) || (highest !== null && apart > highest)) return -Infinity;
  }
  for (const kept of head.kept) if (!kept[column]) return -Infinity;
  for (const [queryIds, keyIds] of head.ids) if (queryIds[row] !== keyIds[column]) return -Infinity;
  let sum = 0;
  for (const {by, values, bool} of head.added) {
    const place = by === "rows" ? row : by === "columns" ? column
      : by === "distance" ? column - row + head.queries - 1 : row * head.keys + column;
    sum += bool ? (values[place] ? 0 : -Infinity) : values[place];
  }
  return sum;
}

/** The run of columns, inside of first to last, outside of which bands hide everything from a row. */
export function seenColumns(head, row, first, last) {
  if (!head.inOrder) return [first, last];
  const at = head.rowAt[row] - head.columnAt[0];
  for (const [lowest, highest] of head.bands) {
    if (lowest !== null) first = Math.max(first, at + lowest);
    if (highest !== null) last = Math.min(last, at + highest + 1);
  }
  return [first, Math.max(first, last)];
}

/** The dot products of four queries with a run of keys, four at a time: dots[n * stride + column - first]. */
export function dotProducts(head, row, first, last, dots, stride) {
  const {query, key, width} = head;
  const q0 = row * width, q1 = q0 + width, q2 = q1 + width, q3 = q2 + width;
  for (let column = first; column < last; column += 4) {
    const k0 = column * width, k1 = k0 + width, k2 = k1 + width, k3 = k2 + width;
    let s00 = 0, s01 = 0, s02 = 0, s03 = 0, s10 = 0, s11 = 0, s12 = 0, s13 = 0;
    let s20 = 0, s21 = 0, s22 = 0, s23 = 0, s30 = 0, s31 = 0, s32 = 0, s33 = 0;
    for (let n = 0; n < width; n++) {
      const a = key[k0 + n], b = key[k1 + n], c = key[k2 + n], d = key[k3 + n];
      const q = query[q0 + n], r = query[q1 + n], s = query[q2 + n], t = query[q3 + n];
      s00 += q * a; s01 += q * b; s02 += q * c; s03 += q * d;
      s10 += r * a; s11 += r * b; s12 += r * c; s13 += r * d;
      s20 += s * a; s21 += s * b; s22 += s * c; s23 += s * d;
      s30 += t * a; s31 += t * b; s32 += t * c; s33 += t * d;
    }
    let at = column - first;
    dots[at] = s00; dots[at + 1] = s01; dots[at + 2] = s02; dots[at + 3] = s03;
    at += stride;
    dots[at] = s10; dots[at + 1] = s11; dots[at + 2] = s12; dots[at + 3] = s13;
    at += stride;
    dots[at] = s20; dots[at + 1] = s21; dots[at + 2] = s22; dots[at + 3] = s23;
    at += stride;
    dots[at] = s30; dots[at + 1] = s31; dots[at + 2] = s32; dots[at + 3] = s33;
  }
}

/** exp by tables of powers of two, right to 1e-8 of its value: several times as fast as Math.exp. */
export function exponentialTables() {
  const fractions = Float64Array.from({length: 2048}, (_, n) => 2 ** (n / 2048));
  const powers = Float64Array.from({length: 256}, (_, n) => 2 ** (n - 160));  // of x from -110 to 65
  return {fractions, powers};
}

/** Add the weights of some columns of a row, given their dot products, to the bins that they fall into. */
export function addWeights(head, row, first, last, dots, from, sums, base, columnBin, left, tables) {
  const {scale, softcap, onlyBands} = head, {fractions, powers} = tables;
  const normaliser = head.normaliser[row], factor = 2048 / Math.LN2;
  if (normaliser === -Infinity) return;  // the row sees nothing
  for (let column = first; column < last; column++) {
    let score = dots[from + column - first] * scale;
    if (softcap !== null) score = softcap * Math.tanh(score / softcap);
    if (!onlyBands) {
      const added = maskAdds(head, row, column);
      if (added === -Infinity) continue;
      score += added;
    }
    score -= normaliser;
    if (score < -100) continue;  // below 1e-43
    if (!(score < 60)) {
      sums[base + columnBin[column - left]] += Math.exp(score);  // NaN too
      continue;
    }
    const scaled = score * factor, whole = Math.floor(scaled), rest = (scaled - whole) / factor;
    sums[base + columnBin[column - left]] +=
      powers[(whole >> 11) + 160] * fractions[whole & 2047] * (1 + rest + 0.5 * rest * rest);
  }
}

/**
 * The mean over heads of rows × columns, averaged over bins: call step(), a millisecond or two each, until it is true,
 * then read values. Bins past the last token are 0.
 */
export function tileJob(heads, {rows, columns, bins}) {
  const {queries, keys, width} = heads[0];
  const [top, left] = [rows[0], columns[0]];
  const bottom = Math.min(rows[1], queries), right = Math.min(columns[1], keys);
  const binOf = (length, count) => {  // bin i holds ⌊i n / count⌋ to ⌊(i + 1) n / count⌋
    const found = new Int32Array(length);
    for (let bin = 0; bin < count; bin++) {
      found.fill(bin, Math.floor(bin * length / count), Math.floor((bin + 1) * length / count));
    }
    return found;
  };
  const rowBin = binOf(rows[1] - top, bins[0]), columnBin = binOf(columns[1] - left, bins[1]);
  const counts = (bin, count, number) => {
    const found = new Float64Array(number);
    for (let n = 0; n < count; n++) found[bin[n]]++;
    return found;
  };
  const sums = new Float64Array(bins[0] * bins[1]), tables = exponentialTables();
  const stride = right - left + 3, dots = new Float64Array(4 * stride);
  const blocks = Math.max(1, Math.round(2 ** 19 / (width * (right - left))));  // of four rows, in a step
  let number = 0, row = top, values = null;

  function addRows(head) {
    const count = Math.min(4, bottom - row);
    const runs = [];
    let first = right, last = left;
    for (let n = 0; n < count; n++) {
      runs.push(seenColumns(head, row + n, left, right));
      if (runs[n][0] < runs[n][1]) [first, last] = [Math.min(first, runs[n][0]), Math.max(last, runs[n][1])];
    }
    if (first < last) dotProducts(head, row, first, last, dots, stride);
    for (let n = 0; n < count; n++) {
      const [from, to] = runs[n];
      if (from >= to) continue;
      const base = rowBin[row + n - top] * bins[1];
      addWeights(head, row + n, from, to, dots, n * stride + from - first, sums, base, columnBin, left, tables);
    }
    row += count;
  }

  return {
    step() {
      for (let n = 0; n < blocks && number < heads.length; n++) {
        addRows(heads[number]);
        if (row >= bottom) [number, row] = [number + 1, top];
      }
      if (number < heads.length) return false;
      values = new Float32Array(sums.length);
      const rowCounts = counts(rowBin, bottom - top, bins[0]), columnCounts = counts(columnBin, right - left, bins[1]);
      for (let i = 0, at = 0; i < bins[0]; i++) {
        for (let j = 0; j < bins[1]; j++, at++) {
          const tokens = rowCounts[i] * columnCounts[j] * heads.length;
          values[at] = tokens ? sums[at] / tokens : 0;
        }
      }
      return true;
    },
    get values() {
      return values;
    },
  };
}
