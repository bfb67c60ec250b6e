// Charts: SVG files that the server draws, shown as images, with their numbers in a table below.
import { element, fill, table } from "./dom.js";

const SCALE = 2.5;

/** A text in lines that are no wider than so many pixels. */
function wrapped(pen, text, width) {
  const lines = [""];
  for (const word of text.split(/\s+/)) {
    const longer = `${lines.at(-1)} ${word}`.trim();
    if (lines.at(-1) && pen.measureText(longer).width > width) lines.push(word);
    else lines[lines.length - 1] = longer;
  }
  return lines;
}

/** A chart with its caption. An image runs no script, and follows light and dark by itself. */
export class Chart {
  constructor() {
    this.caption = element("figcaption", {});
    this.numbers = element("details", { class: "numbers" });
    this.place = element("div", {});
    this.node = element("figure", { class: "chart", hidden: true }, this.place, this.caption, this.numbers);
    this.shown = null;
  }

  /** Show a chart of the server's; without one the place stays empty. */
  show(chart, caption) {
    this.shown = chart ?? null;
    this.node.hidden = !chart;
    if (!chart) return;
    const image = element("img", {
      class: "plot",
      alt: chart.alt,
      src: `data:image/svg+xml;charset=utf-8,${encodeURIComponent(chart.svg)}`,
      onload: () => {
        image.dataset.drawn = "true";
      },
    });
    fill(this.place, image);
    fill(this.caption, caption);
    fill(this.numbers, element("summary", {}, "The numbers of this chart"), table(chart.title, chart.columns, chart.rows));
  }

  hide() {
    this.show(null);
  }

  /** The picture as a PNG, at a size for slides, with the sentence that it illustrates. */
  async png(sentence) {
    const image = this.place.querySelector("img");
    await image.decode();
    const [width, height] = [image.naturalWidth * SCALE, image.naturalHeight * SCALE];
    const canvas = element("canvas", {});
    const pen = canvas.getContext("2d");
    const style = getComputedStyle(document.documentElement);
    const font = "26px system-ui, sans-serif";
    pen.font = font;
    const lines = wrapped(pen, sentence, width - 60);
    const head = 40 + 34 * lines.length;
    [canvas.width, canvas.height] = [width, height + head];
    pen.fillStyle = style.getPropertyValue("--card");
    pen.fillRect(0, 0, width, height + head);
    pen.font = font;
    pen.fillStyle = style.getPropertyValue("--ink");
    lines.forEach((line, index) => pen.fillText(line, 30, 45 + 34 * index));
    pen.drawImage(image, 0, head, width, height);
    return new Promise((resolve) => canvas.toBlob(resolve, "image/png"));
  }
}
