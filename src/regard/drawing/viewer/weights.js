// Exact weights in a page: arrays are unpacked, tiles computed from queries and keys, in workers if the browser allows them.

const base85Alphabet = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;,=>?@^_`{|}~";
const arrayTypes = {
  uint8: Uint8Array, float16: Uint16Array, int32: Int32Array, float32: Float32Array, float64: Float64Array,
};

/** The array of a block {dtype, shape, text}; float16 as its bits. */
export async function decodeBlock(block) {
  const deflated = decodeBase85(block.text);
  const type = arrayTypes[block.dtype], size = type.BYTES_PER_ELEMENT;
  const count = block.shape.reduce((product, length) => product * length, 1);
  const planes = await inflate(deflated, count * size);
  if (size === 1) return planes;
  const bytes = new Uint8Array(count * size);
  for (let plane = 0; plane < size; plane++) {
    for (let n = 0, from = plane * count, to = plane; n < count; n++, to += size) bytes[to] = planes[from + n];
  }
  return new type(bytes.buffer);
}

function decodeBase85(text) {
  const digits = new Uint8Array(128);
  for (let n = 0; n < 85; n++) digits[base85Alphabet.charCodeAt(n)] = n;
  const words = Math.ceil(text.length / 5), missing = 5 * words - text.length, bytes = new Uint8Array(4 * words);
  text += "~".repeat(missing);
  for (let word = 0, from = 0, to = 0; word < words; word++, from += 5, to += 4) {
    let value = 0;
    for (let n = 0; n < 5; n++) value = value * 85 + digits[text.charCodeAt(from + n)];
    bytes[to] = value >>> 24;
    bytes[to + 1] = value >>> 16;
    bytes[to + 2] = value >>> 8;
    bytes[to + 3] = value;
  }
  return bytes.subarray(0, bytes.length - missing);
}

async function inflate(deflated, length) {
  const stream = new DecompressionStream("deflate");
  const writer = stream.writable.getWriter();
  writer.write(deflated).catch(() => {});
  writer.close().catch(() => {});
  const reader = stream.readable.getReader(), bytes = new Uint8Array(length);
  for (let filled = 0; filled < length;) {
    const {done, value} = await reader.read();
    if (done) throw new Error("the numbers of this page are cut off: save it again");
    bytes.set(value, filled);
    filled += value.length;
  }
  return bytes;
}

/** Numbers from the bits of float16. */
export function fromHalves(bits) {
  const table = new Float32Array(65536), numbers = new Float32Array(bits.length);
  for (let n = 0; n < 65536; n++) {
    const sign = n & 0x8000 ? -1 : 1, exponent = (n >> 10) & 31, fraction = n & 1023;
    if (exponent === 31) table[n] = fraction ? NaN : sign * Infinity;
    else table[n] = exponent ? sign * (1 + fraction / 1024) * 2 ** (exponent - 15) : sign * fraction * 2 ** -24;
  }
  for (let n = 0; n < bits.length; n++) numbers[n] = table[bits[n]];
  return numbers;
}

/** Open a head of a file, with three more tokens, so that blocks of four are always whole. */
function openHead(spec) {
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

/** A function that opens a head by its number, once. */
function headOpener(specs) {
  const opened = new Map();
  return number => {
    if (!opened.has(number)) opened.set(number, openHead(specs[number]));
    return opened.get(number);
  };
}

/** The number that a mask adds to the score of a query and a key: -Infinity where the key is hidden. */
function maskAdds(head, row, column) {
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

/** The run of columns within first … last that bands do not hide from a row. */
function seenColumns(head, row, first, last) {
  if (!head.inOrder) return [first, last];
  const at = head.rowAt[row] - head.columnAt[0];
  for (const [lowest, highest] of head.bands) {
    if (lowest !== null) first = Math.max(first, at + lowest);
    if (highest !== null) last = Math.min(last, at + highest + 1);
  }
  return [first, Math.max(first, last)];
}

/** The dot products of four queries with a run of keys, four at a time: dots[n * stride + column - first]. */
function dotProducts(head, row, first, last, dots, stride) {
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

/** exp by tables of powers of two, with a relative error of 1e-8, several times as fast as Math.exp. */
function exponentialTables() {
  const fractions = Float64Array.from({length: 2048}, (_, n) => 2 ** (n / 2048));
  const powers = Float64Array.from({length: 256}, (_, n) => 2 ** (n - 160));  // of x from -110 to 65
  return {fractions, powers};
}

/** Add the weights of some columns of a row, given their dot products, to the bins that they fall into. */
function addWeights(head, row, first, last, dots, from, sums, base, columnBin, left, tables) {
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
function tileJob(heads, {rows, columns, bins}) {
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

const smallWork = 2 ** 21;  // multiply–adds, done at once: some milliseconds
const sliceTime = 5;  // milliseconds of a slice

/** Computes tiles of heads given as `specs`: {parallel, tile({heads, rows, columns, bins}), close}, heads by index. */
export function weightsPool(specs) {
  const head = headOpener(specs);
  const workers = startWorkers(specs), idle = [...workers], jobs = new Map(), waiting = [];
  const here = ([request, resolve, reject]) =>
    inSlices(tileJob(request.heads.map(head), request)).then(resolve, reject);

  function start(worker, job) {
    jobs.set(worker, job);
    worker.postMessage(job[0]);
  }

  for (const worker of workers) {
    worker.onmessage = ({data}) => {
      const [, resolve, reject] = jobs.get(worker), next = waiting.shift();
      jobs.delete(worker);
      if (next) start(worker, next);
      else idle.push(worker);
      if (data.error) reject(new Error(data.error));
      else resolve(data.values);
    };
    worker.onerror = event => {  // some notebooks cannot start it
      event.preventDefault();
      for (const list of [workers, idle]) if (list.includes(worker)) list.splice(list.indexOf(worker), 1);
      if (jobs.has(worker)) here(jobs.get(worker));
      jobs.delete(worker);
      if (!workers.length) waiting.splice(0).forEach(here);
    };
  }

  return {
    get parallel() {
      return Math.max(workers.length, 1);
    },
    tile(request) {
      const [rows, columns] = [request.rows, request.columns].map(([from, to]) => to - from);
      const work = rows * columns * request.heads.length * specs[request.heads[0]].width;
      return new Promise((resolve, reject) => {
        const job = [request, resolve, reject];
        if (work <= smallWork || !workers.length) here(job);
        else if (idle.length) start(idle.pop(), job);
        else waiting.push(job);
      });
    },
    close() {
      for (const worker of workers) worker.terminate();
    },
  };
}

async function inSlices(job) {
  for (let end = performance.now() + sliceTime; !job.step();) {
    if (performance.now() < end) continue;
    await new Promise(resume => setTimeout(resume, 0));
    end = performance.now() + sliceTime;
  }
  return job.values;
}

function startWorkers(specs) {
  const functions = [
    fromHalves, openHead, headOpener, maskAdds, seenColumns, dotProducts, exponentialTables, addWeights, tileJob, workerMain,
  ];
  const source = functions.map(String).join("\n") + "\nworkerMain();";
  const count = Math.min(Math.max((navigator.hardwareConcurrency ?? 2) - 1, 1), 4), workers = [];
  try {
    const address = URL.createObjectURL(new Blob([source], {type: "text/javascript"}));
    for (let n = 0; n < count; n++) {
      const worker = new Worker(address);
      worker.postMessage({specs});
      workers.push(worker);
    }
  } catch {
    // A notebook may forbid workers.
  }
  return workers;
}

/** The code of a worker: it first gets the heads, then one request at a time. */
function workerMain() {
  let head = null;
  self.onmessage = ({data}) => {
    if (data.specs) {
      head = headOpener(data.specs);
      return;
    }
    try {
      const job = tileJob(data.heads.map(head), data);
      while (!job.step());
      self.postMessage({values: job.values}, [job.values.buffer]);
    } catch (error) {
      self.postMessage({error: String(error)});
    }
  };
}
