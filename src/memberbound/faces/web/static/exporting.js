// Taking a result along: JSON, picture, link, command line, Python.
import { bytes, element, fill, say } from "./dom.js";

/** Hand a file to the browser's download. */
export function save(name, content, type) {
  const blob = content instanceof Blob ? content : new Blob([content], { type });
  const address = URL.createObjectURL(blob);
  const link = element("a", { href: address, download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}

async function copy(text, button) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    // Without a secure context there is no clipboard interface; a selected text can still be copied.
    const area = element("textarea", { value: text, class: "unseen", "aria-hidden": "true" });
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
    button.focus();
  }
  const before = button.textContent;
  button.textContent = "Copied";
  say("Copied.");
  setTimeout(() => {
    button.textContent = before;
  }, 1500);
}

const copying = (what, text) =>
  element(
    "button",
    {
      type: "button",
      class: "small",
      "aria-label": `Copy ${what}`,
      onclick: (event) => copy(text(), event.currentTarget),
    },
    "Copy",
  );

/** The cells of the first records of a CSV text; a last one that is cut off is left out. */
function records(text, most) {
  const found = [[""]];
  let quoted = false;
  for (let at = 0; at < text.length && found.length <= most; at += 1) {
    const last = found.at(-1);
    const letter = text[at];
    if (letter === '"') {
      if (quoted && text[at + 1] === '"') last[last.length - 1] += text[++at];
      else quoted = !quoted;
    } else if (letter === "," && !quoted) last.push("");
    else if (letter === "\n" && !quoted) found.push([""]);
    else if (letter !== "\r" || quoted) last[last.length - 1] += letter;
  }
  return found.slice(0, -1);
}

/** The first rows of a CSV file; the rest is not loaded. */
function preview(file) {
  const rows = element("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": `First rows of ${file.name}` });
  const node = element("details", { open: true, hidden: true }, element("summary", {}, `First rows of ${file.name}`), rows);
  (async () => {
    const reader = (await fetch(file.href)).body.getReader();
    const { value } = await reader.read();
    reader.cancel();
    const [names, ...cells] = records(new TextDecoder().decode(value), 6);
    const cell = (kind) => (text) => element(kind, {}, text);
    fill(
      rows,
      element(
        "table",
        {},
        element("thead", {}, element("tr", {}, names.map(cell("th")))),
        element("tbody", {}, cells.map((row) => element("tr", {}, row.map(cell("td"))))),
      ),
    );
    node.hidden = false;
  })().catch(() => node.remove());
  return node;
}

/** The files that a job wrote, to be downloaded. */
export const downloads = (done) =>
  done.files.map((each) => ({
    name: each.name,
    words: `Download ${each.name} (${bytes(each.bytes)})`,
    href: `/api/jobs/${encodeURIComponent(done.job)}/files/${encodeURIComponent(each.name)}`,
  }));

/** The export panel of a page; `show` takes what there is to take along. */
export class Exports {
  constructor() {
    this.node = element("section", { class: "exports card", hidden: true, "aria-label": "Save or share" });
  }

  hide() {
    this.node.hidden = true;
  }

  /** What a finished job leaves to take along. */
  of(done, chart = null) {
    const { result, command, python } = done;
    const name = `memberbound-${result.command}`;
    this.show({ name, sentence: result.sentence, json: result, chart, command, python, files: downloads(done) });
  }

  /** `sentence` goes above the picture; `chart` may be null; `files` are [{name, href, words}]. The command prints a table for people. */
  show({ name, sentence, json, chart, command, python, files = [] }) {
    this.node.hidden = false;
    const picture = element(
      "button",
      { type: "button", disabled: chart === null, onclick: async () => chart.shown && save(`${name}.png`, await chart.png(sentence)) },
      "Save picture (PNG)",
    );
    const block = (title, text) =>
      text &&
      element(
        "div",
        { class: "code" },
        element(
          "p",
          { class: "codehead" },
          title,
          copying(title.toLowerCase(), () => text),
        ),
        element("pre", { tabindex: "0", "aria-label": title }, element("code", {}, text)),
      );
    fill(
      this.node,
      element("h2", {}, "Save or share"),
      element(
        "div",
        { class: "buttons" },
        files.map((file) => element("a", { class: "button", href: file.href, download: file.name }, file.words)),
        element(
          "button",
          {
            type: "button",
            onclick: () => save(`${name}.json`, `${JSON.stringify(json, null, 2)}\n`, "application/json"),
          },
          "Save JSON",
        ),
        picture,
        element(
          "button",
          { type: "button", onclick: (event) => copy(location.href, event.currentTarget) },
          "Copy link",
        ),
      ),
      files.filter(({ name }) => name.endsWith(".csv")).map(preview),
      block("Command line", command.replace(/ --json$/, "")),
      block("Python", python),
    );
  }
}
