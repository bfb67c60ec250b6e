// Giving the server a file: dropped, chosen, or made up for a try.
import { element, fill, notice, say } from "./dom.js";
import { get, remove, upload } from "./api.js";
import { Invalid } from "./fields.js";
import { bytes, count } from "./numbers.js";

const ENDINGS = ".csv,.csv.gz,.gz,.parquet,.arrow,.feather";

export class FilePanel {
  /** `chosen(file)` is called with the server's description of the file, or null. */
  constructor({ title, hint, chosen, example = null }) {
    this.chosen = chosen;
    this.example = example;
    this.file = null;
    this.input = element("input", {
      type: "file",
      accept: ENDINGS,
      class: "unseen",
      id: `file-${title.replace(/\W+/g, "-")}`,
      onchange: () => {
        if (this.input.files[0]) this.send(this.input.files[0]);
      },
    });
    this.status = element("div", { class: "filestatus" });
    this.zone = element(
      "div",
      {
        class: "drop",
        ondragover: (event) => {
          event.preventDefault();
          this.zone.classList.add("over");
        },
        ondragleave: () => this.zone.classList.remove("over"),
        ondrop: (event) => {
          event.preventDefault();
          this.zone.classList.remove("over");
          if (event.dataTransfer.files[0]) this.send(event.dataTransfer.files[0]);
        },
      },
      this.input,
      element("label", { for: this.input.id, class: "button" }, title),
      element("p", { class: "quiet" }, hint),
      example &&
        element(
          "button",
          { type: "button", class: "link", onclick: () => this.send(example()) },
          "No file at hand? Try it with made-up people.",
        ),
    );
    this.node = element("div", { class: "upload" }, this.zone, this.status);
  }

  /** Send a file and tell the page; a file that is still on its way is stopped. */
  async send(file) {
    const previous = this.file;
    this.control?.abort();
    const control = new AbortController();
    this.control = control;
    this.file = null;
    this.chosen(null);
    const bar = element("progress", { max: 1, value: 0, "aria-label": "Upload" });
    const words = element("p", {}, "Sending ", element("strong", {}, file.name), " to the server on this machine …");
    const stop = element("button", { type: "button", class: "small", onclick: () => control.abort() }, "Stop");
    fill(this.status, words, bar, stop);
    if (previous) this.#drop(previous.file);
    try {
      const found = await upload(
        file,
        (share) => {
          bar.value = share;
          if (share === 1) {
            fill(words, "Reading ", element("strong", {}, file.name), " …");
            bar.removeAttribute("value");
          }
        },
        control.signal,
      );
      this.#take(found);
    } catch (problem) {
      // Stopped for another file: that one has the floor.
      if (this.control !== control) return;
      if (problem.name === "AbortError") fill(this.status, notice("note", "Stopped. Nothing was kept."));
      else fill(this.status, notice("bad", element("strong", {}, file.name), `: ${problem.message}`));
    }
    this.input.value = "";
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

  #take(found) {
    this.file = found;
    fill(
      this.status,
      element(
        "p",
        { class: "taken" },
        element("strong", {}, found.name),
        ` — ${count(found.rows)} rows, ${count(found.columns.length)} columns, ${bytes(found.bytes)} `,
        element(
          "button",
          { type: "button", class: "small", "aria-label": `Remove ${found.name}`, onclick: () => this.forget() },
          "Remove",
        ),
      ),
    );
    say(`${found.name} was read: ${found.rows} rows.`);
    this.chosen(found);
  }

  forget() {
    if (this.file) this.#drop(this.file.file);
    this.file = null;
    fill(this.status);
    this.chosen(null);
  }

  #drop(id) {
    // A file that is already gone is what was wanted.
    remove(`/api/files/${encodeURIComponent(id)}`).catch(() => {});
  }
}

const ROLES = ["number", "category", "date", "identifier", "text"];

/** Whether every row has another value that is no measurement: a name or a number of somebody. */
const identifies = (column, rows) =>
  rows > 1 && column.distinct === rows && (column.role === "identifier" || !column.numeric);

/** Check boxes for the columns of a file; `changed` is called after each change. */
export class ColumnChooser {
  /** With `roles`, what a column holds can be said as well. */
  constructor(legend, changed, { roles = false } = {}) {
    this.legend = legend;
    this.changed = changed;
    this.choosesRoles = roles;
    this.boxes = [];
    this.usual = [];
    this.node = element("fieldset", { class: "columns", hidden: true });
  }

  /** Show columns of a file with so many rows; `usual` are the ones that the verb takes by itself. */
  show(columns, picked, { rows = 0, usual = columns.map(({ name }) => name), roles = {} } = {}) {
    this.node.hidden = columns.length === 0;
    this.usual = usual;
    this.boxes = columns.map((column) => this.#box(column, (picked ?? usual).includes(column.name), rows, roles));
    const every = (state) => () => {
      this.boxes.forEach(({ box }) => {
        box.checked = state;
      });
      this.#told();
      this.changed();
    };
    this.sum = element("span", { class: "quiet", role: "status" });
    this.advice = element("div", {});
    fill(
      this.node,
      element("legend", {}, this.legend),
      element(
        "div",
        { class: "buttons" },
        element("button", { type: "button", class: "small", onclick: every(true) }, "All"),
        element("button", { type: "button", class: "small", onclick: every(false) }, "None"),
        this.sum,
      ),
      this.advice,
      element(
        "div",
        { class: "boxes" },
        this.boxes.map(({ node }) => node),
      ),
    );
    this.#told();
  }

  #box(column, checked, rows, roles) {
    const change = () => {
      this.#told();
      this.changed();
    };
    const box = element("input", { type: "checkbox", onchange: change });
    box.checked = checked;
    const kind = column.numeric ? "number" : "text";
    const kinds =
      column.distinct === null || column.distinct === undefined
        ? kind
        : `${kind}, ${count(column.distinct)} different`;
    const role = this.choosesRoles
      ? element(
          "select",
          { "aria-label": `What ${column.name} holds`, onchange: change },
          element("option", { value: "" }, `as found: ${column.role}`),
          ROLES.filter((name) => name !== column.role).map((name) => element("option", { value: name }, name)),
        )
      : null;
    if (role) role.value = roles[column.name] ?? "";
    const label = element(
      "label",
      {},
      box,
      element("span", { class: "column" }, column.name),
      element("span", { class: "quiet" }, kinds),
    );
    return {
      box,
      role,
      name: column.name,
      unique: identifies(column, rows),
      node: role ? element("div", { class: "with-role" }, label, role) : label,
    };
  }

  /** A column that is different in every row is offered to be left out, with one click. */
  #advise() {
    const found = this.boxes.filter(({ box, unique }) => unique && box.checked);
    fill(
      this.advice,
      found.map((each) =>
        element(
          "div",
          { class: "notice note" },
          element("strong", {}, each.name),
          " is different in every row, as an ID is. Leave it out? ",
          element(
            "button",
            {
              type: "button",
              class: "small",
              "aria-label": `Leave out ${each.name}`,
              onclick: () => {
                each.box.checked = false;
                each.box.focus();
                this.#told();
                this.changed();
              },
            },
            "Leave it out",
          ),
        ),
      ),
    );
  }

  #told() {
    this.#advise();
    this.sum.textContent = `${this.boxes.filter(({ box }) => box.checked).length} of ${this.boxes.length} chosen`;
  }

  get all() {
    return this.boxes.every(({ box }) => box.checked);
  }

  /** The chosen columns as an option: nothing where all are, and none at all is refused. */
  get asked() {
    if (this.names.length === 0) throw new Invalid("columns", "Choose at least one column.");
    const names = this.names;
    const same = names.length === this.usual.length && names.every((name) => this.usual.includes(name));
    return same ? {} : { columns: names };
  }

  /** The roles that somebody chose, by column. */
  get roles() {
    return Object.fromEntries(
      this.boxes.filter(({ role }) => role?.value).map(({ name, role }) => [name, role.value]),
    );
  }

  get names() {
    return this.boxes.filter(({ box }) => box.checked).map(({ name }) => name);
  }
}
