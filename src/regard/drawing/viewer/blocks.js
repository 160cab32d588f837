// Arrays inside a page, as viewer_blocks.py writes them: byte planes, deflate, base 85.

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
