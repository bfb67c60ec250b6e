// Giving the server a file: dropped, chosen, or made up for a try.
import { bytes, count, element, fill, freshId, notice, say } from "./dom.js";
import { get, remove, upload } from "./api.js";

export const TABLES =
  ".csv,.tsv,.gz,.parquet,.arrow,.feather,.xlsx,.xlsm,.dta,.sav,.zsav,.por,.sas7bdat,.xpt";
export const MODELS = ".skops,.onnx,.json,.safetensors";

const ENCODINGS = ["", "utf-8", "cp1252", "latin-1", "utf-16", "cp1250", "cp1251", "mac-roman", "shift_jis", "gb18030"];

/** A place where a file is dropped or chosen; `take(file)` gets it. */
function dropZone({ title, hint, accept, take, id = freshId("file") }, ...more) {
  const input = element("input", {
    type: "file",
    accept,
    class: "unseen",
    id,
    onchange: () => {
      const [chosen] = input.files;
      if (chosen) take(chosen);
      // The same file can be chosen again.
      input.value = "";
    },
  });
  const zone = element(
    "div",
    {
      class: "drop",
      ondragover: (event) => {
        event.preventDefault();
        zone.classList.add("over");
      },
      ondragleave: () => zone.classList.remove("over"),
      ondrop: (event) => {
        event.preventDefault();
        zone.classList.remove("over");
        const [dropped] = event.dataTransfer.files;
        if (dropped) take(dropped);
      },
    },
    input,
    element("label", { for: input.id, class: "button" }, title),
    element("p", { class: "quiet" }, hint),
    more,
  );
  return zone;
}

export class FilePanel {
  /** `chosen(file)` is called with the server's description of the file, or null. */
  constructor({ title, hint, chosen, example = null, accept = TABLES }) {
    this.chosen = chosen;
    this.file = null;
    this.status = element("div", { class: "filestatus" });
    this.encoding = element(
      "select",
      { class: "small", onchange: () => this.sent && this.send(this.sent) },
      ENCODINGS.map((name) => element("option", { value: name }, name.toUpperCase() || "detected")),
    );
    this.encoded = element("label", { class: "quiet", hidden: true }, "Its encoding ", this.encoding);
    this.sheet = element("input", {
      class: "small",
      onchange: () => this.sent && this.send(this.sent),
    });
    this.sheeted = element("label", { class: "quiet", hidden: true }, "Its sheet ", this.sheet);
    this.node = element(
      "div",
      { class: "upload" },
      dropZone(
        { title, hint, accept, take: (file) => this.send(file) },
        example &&
          element(
            "button",
            { type: "button", class: "link", onclick: () => this.send(example()) },
            "No file at hand? Try it with made-up people.",
          ),
        this.encoded,
        this.sheeted,
      ),
      this.status,
    );
  }

  /** Send a file and tell the page; a file that is still on its way is stopped. */
  async send(file) {
    const previous = this.file;
    this.control?.abort();
    const control = new AbortController();
    this.control = control;
    this.file = null;
    this.sent = file;
    this.#mayBeEncoded(file);
    this.chosen(null);
    const bar = element("progress", { max: 1, value: 0, "aria-label": "Upload" });
    const words = element("p", {}, "Sending ", element("strong", {}, file.name), " to the server on this machine …");
    const stop = element("button", { type: "button", class: "small", onclick: () => control.abort() }, "Stop");
    fill(this.status, words, bar, stop);
    if (previous) this.#drop(previous.file);
    try {
      const received = await upload(
        file,
        { encoding: this.encoding.value, sheet: this.sheet.value },
        (share) => {
          bar.value = share;
          if (share === 1) {
            fill(words, "Reading ", element("strong", {}, file.name), " …");
            bar.removeAttribute("value");
          }
        },
        control.signal,
      );
      this.#take(received);
    } catch (problem) {
      // Stopped for another file: that one has the floor.
      if (this.control !== control) return;
      if (problem.name === "AbortError") fill(this.status, notice("note", "Stopped. Nothing was kept."));
      else if (!this.#offerSheets(file, problem.message))
        fill(this.status, notice("bad", element("strong", {}, file.name), `: ${problem.message}`));
    }
  }

  /** Offer the sheets of a workbook that has several; false if that is not the problem. */
  #offerSheets(file, problem) {
    const [, listed] = problem.match(/must name one sheet of .*, which has (.*) \(--table/) ?? [];
    if (!listed) return false;
    const take = (name) => {
      this.sheet.value = name;
      this.send(file);
    };
    const names = [...listed.matchAll(/'([^']*)'/g)].map(([, name]) => name);
    fill(
      this.status,
      notice("note", element("strong", {}, file.name), " has several sheets. Which one? "),
      element(
        "div",
        { class: "buttons" },
        names.map((name) => element("button", { type: "button", class: "small", onclick: () => take(name) }, name)),
      ),
    );
    return true;
  }

  /** Find a file of the address again after a reload. */
  async recall(id) {
    try {
      this.#take(await get(`/api/files/${encodeURIComponent(id)}`));
    } catch {
      fill(
        this.status,
        notice(
          "note",
          "The server no longer has the file of this link. Choose it again to go on; the results below stay.",
        ),
      );
    }
  }

  #take(file) {
    this.file = file;
    this.encoding.value = file.encoding ?? "";
    this.sheet.value = file.sheet ?? "";
    this.#mayBeEncoded(file);
    const size = file.rows === null ? "" : `${count(file.rows)} rows, ${count(file.columns.length)} columns, `;
    fill(
      this.status,
      element(
        "p",
        { class: "taken" },
        element("strong", {}, file.name),
        ` — ${size}${bytes(file.bytes)} `,
        element(
          "button",
          { type: "button", class: "small", "aria-label": `Remove ${file.name}`, onclick: () => this.forget() },
          "Remove",
        ),
      ),
    );
    say(`${file.name} was read.`);
    this.chosen(file);
  }

  /** Only CSV files have encodings to choose, only workbooks sheets. */
  #mayBeEncoded({ name }) {
    this.encoded.hidden = !/\.(csv|tsv|csv\.gz)$/i.test(name);
    this.sheeted.hidden = !/\.xls[xm]$/i.test(name);
  }

  forget() {
    if (this.file) this.#drop(this.file.file);
    this.file = this.sent = null;
    fill(this.status);
    this.chosen(null);
  }

  #drop(id) {
    // A file that is already gone is what was wanted.
    remove(`/api/files/${encodeURIComponent(id)}`).catch(() => {});
  }
}

/** Opening a report.json that somebody has. */
export class ReportDrop {
  /** `begun()` is called when a file was chosen, `show(report)` with what it holds; it may refuse. */
  constructor({ begun, show }) {
    this.begun = begun;
    this.show = show;
    this.status = element("div", { class: "filestatus", "aria-live": "polite" });
    const zone = dropZone({
      id: "file-report",
      title: "Open a report.json",
      hint: "or drop one here, to read it as a page.",
      accept: ".json,application/json",
      take: (file) => this.open(file),
    });
    this.node = element(
      "section",
      { class: "card", "aria-labelledby": "open-report" },
      element("h2", { id: "open-report" }, "Open a report"),
      zone,
      this.status,
    );
  }

  async open(chosen) {
    this.begun();
    const name = () => element("strong", {}, chosen.name);
    fill(this.status, element("p", {}, "Reading ", name(), " …"));
    let report;
    try {
      report = JSON.parse(await chosen.text());
    } catch {
      fill(this.status, notice("bad", name(), " must be a report.json, got a file that is not JSON."));
      return;
    }
    try {
      await this.show(report);
      fill(this.status, element("p", { class: "taken" }, name(), " is shown below."));
    } catch (problem) {
      fill(this.status, notice("bad", name(), `: ${problem.message}`));
    }
  }
}
