// One interface to draw on a canvas or as SVG, so that a saved picture equals the screen.

const fontFamily = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, 'Noto Sans', sans-serif";
const svgSpace = "http://www.w3.org/2000/svg";
const measuring = document.createElement("canvas").getContext("2d");

function fontOf(size, bold) {
  return `${bold ? "600 " : ""}${size}px ${fontFamily}`;
}

/** How wide a text is, in pixels. */
export function textWidth(text, size, bold = false) {
  measuring.font = fontOf(size, bold);
  return measuring.measureText(text).width;
}

/** As much of a text as fits, with an ellipsis; nothing where not even one letter does. */
export function fittedText(text, room, size, bold = false) {
  if (text.length <= 200 && textWidth(text, size, bold) <= room) return text;
  const letters = [...text.slice(0, 200)];
  let low = 0, high = letters.length;
  while (low < high) {
    const middle = Math.ceil((low + high) / 2);
    if (textWidth(`${letters.slice(0, middle).join("")}…`, size, bold) <= room) low = middle;
    else high = middle - 1;
  }
  return low ? `${letters.slice(0, low).join("").trimEnd()}…` : "";
}

/** Draws on a canvas. */
export function canvasPainter(context) {
  return {
    rect(x, y, width, height, fill) {
      context.fillStyle = fill;
      context.fillRect(x, y, width, height);
    },
    outline(x, y, width, height, stroke, thickness = 1) {
      context.strokeStyle = stroke;
      context.lineWidth = thickness;
      context.strokeRect(x, y, width, height);
    },
    lines(segments, stroke, thickness = 1) {
      context.strokeStyle = stroke;
      context.lineWidth = thickness;
      context.beginPath();
      for (const [x, y, toX, toY] of segments) {
        context.moveTo(x, y);
        context.lineTo(toX, toY);
      }
      context.stroke();
    },
    text(x, y, text, {size = 12, bold = false, fill, align = "left", turn = 0}) {
      context.font = fontOf(size, bold);
      context.fillStyle = fill;
      context.textAlign = align;
      context.textBaseline = "alphabetic";
      if (!turn) {
        context.fillText(text, x, y);
        return;
      }
      context.save();
      context.translate(x, y);
      context.rotate(turn * Math.PI / 180);
      context.fillText(text, 0, 0);
      context.restore();
    },
    image(picture, [fromX, fromY, width, height], [x, y, toWidth, toHeight], smooth) {
      context.imageSmoothingEnabled = smooth;
      context.drawImage(picture, fromX, fromY, width, height, x, y, toWidth, toHeight);
    },
    clipped(x, y, width, height, draw) {
      context.save();
      context.beginPath();
      context.rect(x, y, width, height);
      context.clip();
      draw();
      context.restore();
    },
  };
}

/** Draws as SVG; `finish()` gives it as text. Words are set as text, never as markup. */
export function svgPainter(width, height, title) {
  const make = (name, attributes) => {
    const found = document.createElementNS(svgSpace, name);
    for (const [key, value] of Object.entries(attributes)) {
      found.setAttribute(key, typeof value === "number" ? String(Math.round(value * 100) / 100) : value);
    }
    return found;
  };
  const svg = make("svg", {width, height, viewBox: `0 0 ${width} ${height}`, "font-family": fontFamily, role: "img"});
  const name = make("title", {});
  name.textContent = title;
  svg.append(name);
  let group = svg, clips = 0;
  return {
    rect: (x, y, w, h, fill) => group.append(make("rect", {x, y, width: w, height: h, fill})),
    outline: (x, y, w, h, stroke, thickness = 1) => group.append(
      make("rect", {x, y, width: w, height: h, fill: "none", stroke, "stroke-width": thickness})),
    lines(segments, stroke, thickness = 1) {
      if (!segments.length) return;
      const round = numbers => numbers.map(each => Math.round(each * 100) / 100).join(" ");
      const d = segments.map(([x, y, toX, toY]) => `M${round([x, y])}L${round([toX, toY])}`).join("");
      group.append(make("path", {d, stroke, "stroke-width": thickness, fill: "none"}));
    },
    text(x, y, text, {size = 12, bold = false, fill, align = "left", turn = 0}) {
      if (!text) return;
      const anchor = {left: "start", center: "middle", right: "end"}[align];
      const attributes = {x, y, "font-size": size, fill, "text-anchor": anchor};
      if (bold) attributes["font-weight"] = 600;
      if (turn) attributes.transform = `rotate(${turn} ${x} ${y})`;
      const found = make("text", attributes);
      found.textContent = text.replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]/g, "\ufffd");
      group.append(found);
    },
    image(picture, [fromX, fromY, w, h], [x, y, toWidth, toHeight], smooth) {
      const left = Math.floor(fromX), top = Math.floor(fromY);
      const right = Math.min(Math.ceil(fromX + w), picture.width);
      const bottom = Math.min(Math.ceil(fromY + h), picture.height);
      const part = Object.assign(document.createElement("canvas"), {width: right - left, height: bottom - top});
      part.getContext("2d").drawImage(picture, -left, -top);
      const [unitX, unitY] = [toWidth / w, toHeight / h];
      group.append(make("image", {
        x: x + (left - fromX) * unitX, y: y + (top - fromY) * unitY,
        width: part.width * unitX, height: part.height * unitY,
        preserveAspectRatio: "none", href: part.toDataURL(), "image-rendering": smooth ? "auto" : "pixelated",
      }));
    },
    clipped(x, y, w, h, draw) {
      const clip = make("clipPath", {id: `clip${++clips}`}), outer = group;
      clip.append(make("rect", {x, y, width: w, height: h}));
      group = make("g", {"clip-path": `url(#clip${clips})`});
      outer.append(clip, group);
      draw();
      group = outer;
    },
    finish: () => new XMLSerializer().serializeToString(svg),
  };
}
