// Pictures, drawn by the plotly that the server brings along; loaded when the first one is needed.
import { element, fill } from "./dom.js";

let loading = null;

/** Load plotly once. */
function plotly() {
  loading ??= new Promise((resolve, reject) => {
    const head = document.head;
    // Plotly brings a style element for maps, which are not used here and which the
    // Content-Security-Policy would refuse with an error: leave it out while plotly starts.
    head.appendChild = (node) => (node.tagName === "STYLE" ? node : Element.prototype.appendChild.call(head, node));
    const finish = (act) => () => {
      delete head.appendChild;
      act();
    };
    head.append(
      element("script", {
        src: "/static/plotly.min.js",
        onload: finish(() => resolve(window.Plotly)),
        onerror: finish(() => {
          loading = null;
          reject(new Error("The picture cannot be drawn: plotly did not load."));
        }),
      }),
    );
  });
  return loading;
}

/** A colour of the style sheet, so that pictures follow light and dark. */
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

/** Text from a file, which plotly must not read as its own markup, broken into short lines. */
export function label(text, width = 22) {
  const lines = [""];
  for (const word of text.split(/\s+/)) {
    if (lines.at(-1) && `${lines.at(-1)} ${word}`.length > width) lines.push("");
    lines.push(`${lines.pop()} ${word}`.trim());
  }
  return lines.map((line) => line.replaceAll("&", "&amp;").replaceAll("<", "&lt;")).join("<br>");
}

function dressed(layout, height) {
  const axis = {
    gridcolor: colour("line"),
    zerolinecolor: colour("line"),
    linecolor: colour("quiet"),
    tickcolor: colour("quiet"),
    automargin: true,
    fixedrange: true,
  };
  const joined = { ...layout };
  for (const name of ["xaxis", "yaxis"]) joined[name] = { ...axis, ...layout[name] };
  return {
    margin: { l: 56, r: 26, t: 14, b: 50 },
    paper_bgcolor: colour("card"),
    plot_bgcolor: colour("card"),
    font: { family: "system-ui, sans-serif", size: 13, color: colour("ink") },
    // Below the title of the axis, however high the picture is.
    legend: { orientation: "h", x: 0, y: -66 / Math.max(height - 110, 80), yanchor: "top", font: { size: 12 } },
    hoverlabel: { bgcolor: colour("card"), font: { color: colour("ink") } },
    ...joined,
  };
}

/** A picture with its description; `draw(colour)` gives {data, layout} anew for light and dark. */
export class Chart {
  constructor(height = 380) {
    this.height = height;
    this.place = element("div", { class: "plot" });
    this.caption = element("figcaption", {});
    this.node = element("figure", { class: "chart", hidden: true }, this.place, this.caption);
    this.scheme = window.matchMedia("(prefers-color-scheme: dark)");
    this.repaint = () => {
      if (this.draw) this.#paint();
    };
    this.scheme.addEventListener("change", this.repaint);
  }

  /** Show a picture; `words` describe it to those who do not see it. */
  async show(draw, words, caption) {
    this.draw = draw;
    this.node.hidden = false;
    this.place.setAttribute("role", "img");
    this.place.setAttribute("aria-label", words);
    fill(this.caption, caption ?? words);
    await this.#paint();
  }

  async #paint() {
    try {
      const Plotly = await plotly();
      if (!this.draw || !this.place.isConnected) return;
      const { data, layout } = this.draw(colour);
      await Plotly.react(
        this.place,
        data,
        { ...dressed(layout, this.height), height: this.height, autosize: true },
        { displayModeBar: false, responsive: true },
      );
      this.place.dataset.drawn = String(Number(this.place.dataset.drawn ?? 0) + 1);
    } catch (problem) {
      fill(this.caption, problem.message);
    }
  }

  hide() {
    this.draw = null;
    this.node.hidden = true;
  }

  get shown() {
    return Boolean(this.draw) && !this.node.hidden;
  }

  /** The picture as a PNG, at a size for slides, with the sentence that it illustrates. */
  async png(sentence) {
    const Plotly = await plotly();
    const { data, layout } = this.draw(colour);
    const text = label(sentence, 125);
    const dress = dressed(layout, Math.max(700, this.height));
    const head = 40 + 20 * text.split("<br>").length;
    dress.title = {
      text,
      x: 0.02,
      xanchor: "left",
      y: 1,
      yref: "container",
      yanchor: "top",
      pad: { t: 18 },
      font: { size: 14 },
    };
    dress.margin = { ...dress.margin, t: head };
    const address = await Plotly.toImage(
      { data, layout: dress },
      { format: "png", width: 1100, height: Math.max(700, this.height + head), scale: 2 },
    );
    const bytes = Uint8Array.from(atob(address.split(",")[1]), (character) => character.charCodeAt(0));
    return new Blob([bytes], { type: "image/png" });
  }

  close() {
    this.scheme.removeEventListener("change", this.repaint);
    if (window.Plotly && this.place.data) window.Plotly.purge(this.place);
  }
}
