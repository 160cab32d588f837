// Colours of weights: even to the eye, light and dark, by the logarithm or by the weight itself; as in svg.py.

// Lightness, chroma and hue of the smallest and the largest weight, and the colour of unknown weights.
const ramps = {
  light: {low: [0.986, 0.007, 250], high: [0.3, 0.095, 250], negative: [0.4, 0.105, 45], missing: [226, 230, 235]},
  dark: {low: [0.24, 0.018, 250], high: [0.9, 0.1, 225], negative: [0.8, 0.12, 55], missing: [46, 54, 63]},
};
const shades = 256;

/** The colours of a theme: red, green, blue of each of 256 shades, then of a missing weight; `end` may be "negative". */
export function colourTable(theme, end = "high") {
  const ramp = ramps[theme], table = new Uint8ClampedArray(3 * (shades + 1));
  const [low, high] = [ramp.low, ramp[end]].map(([lightness, chroma, hue]) => {
    const angle = hue * Math.PI / 180;
    return [lightness, chroma * Math.cos(angle), chroma * Math.sin(angle)];
  });
  for (let n = 0; n < shades; n++) {
    const share = n / (shades - 1), extra = 1.2 * share * (1 - share);  // otherwise the middle is grey
    const lab = low.map((from, axis) => from + share * (high[axis] - from) + (axis ? extra * high[axis] : 0));
    table.set(labToRgb(lab), 3 * n);
  }
  table.set(ramp.missing, 3 * shades);
  return table;
}

function labToRgb([lightness, a, b]) {
  const l = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3;
  const m = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3;
  const s = (lightness - 0.0894841775 * a - 1.291485548 * b) ** 3;
  const linear = [
    4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s,
    -1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s,
    -0.0041960863 * l - 0.7034186147 * m + 1.707614701 * s,
  ];
  return linear.map(each => {
    const light = Math.min(Math.max(each, 0), 1);
    return 255 * (light <= 0.0031308 ? 12.92 * light : 1.055 * light ** (1 / 2.4) - 0.055);
  });
}

/** The range of a scale of colours, from the largest value and a small value. */
export function colourRange(mode, largest, small) {
  if (!(largest > 0)) return {mode, low: mode === "log" ? 1e-4 : 0, high: 1};
  if (mode !== "log") return {mode, low: 0, high: niceCeiling(largest)};
  // In quarters of a power of ten, so that a small move changes no colour; at most four powers.
  const high = Math.ceil(4 * Math.log10(largest) - 0.01) / 4;
  const low = small > 0 ? Math.floor(4 * Math.log10(small)) / 4 : -Infinity;
  return {mode, low: 10 ** Math.min(Math.max(low, high - 4), high - 1), high: 10 ** high};
}

function niceCeiling(value) {
  const unit = 10 ** Math.floor(Math.log10(value));
  return unit * [1, 1.5, 2, 3, 4, 5, 6, 8, 10].find(step => step * unit >= value * 0.999);
}

/** Where a value lies on the scale, from 0 to 1. */
export function shareOf(value, {mode, low, high}) {
  const share = mode === "log" ? Math.log(value / low) / Math.log(high / low) : value / high;
  return Math.min(Math.max(share, 0), 1);
}

/**
 * A colour for each upper half of the 32 bits of a float, which has the value to 0.4 %: a pixel takes one lookup instead of
 * a logarithm. 0 is transparent.
 */
export function colourLookup(range, table) {
  const values = new Float32Array(1), bits = new Uint32Array(values.buffer);
  const lookup = new Uint32Array(65536), bytes = new Uint8ClampedArray(lookup.buffer);
  for (let n = 1; n < 65536; n++) {
    bits[0] = (n << 15) | 0x4000;  // the middle of the floats that begin with these bits, without the sign
    const [value] = values;
    const shade = value !== value ? shades : Math.round(shareOf(value, range) * (shades - 1));
    bytes.set(table.subarray(3 * shade, 3 * shade + 3), 4 * n);
    bytes[4 * n + 3] = 255;
  }
  return lookup;
}

/** Fill pixels, 32 bits each, with the colours of values. */
export function colourPixels(values, lookup, pixels) {
  const bits = new Uint32Array(values.buffer, values.byteOffset, values.length);
  for (let n = 0; n < bits.length; n++) pixels[n] = lookup[(bits[n] >>> 15) & 0xffff];
}

/** The colour of one share as CSS, and black or white, whichever is easier to read on it. */
export function colourOf(share, table) {
  const at = 3 * Math.round(share * (shades - 1)), rgb = [...table.subarray(at, at + 3)];
  const [red, green, blue] = rgb.map(each => (each / 255) ** 2.2);
  const luminance = 0.2126 * red + 0.7152 * green + 0.0722 * blue;
  return {fill: `rgb(${rgb.join(" ")})`, ink: luminance > 0.22 ? "#000000" : "#ffffff"};
}

/** A weight in per cent. */
export function percentOf(value) {
  if (value !== value) return "unknown";
  const percent = 100 * value;
  if (percent === 0) return "0";
  if (percent < 0.001) return `${value.toExponential(1)}`;
  return `${percent >= 99.95 ? "100" : percent.toPrecision(percent >= 0.1 ? 3 : 2)} %`;
}
