// A table in a form: the file, columns with a part of their own, and the columns that are used.
import { list, mapping } from "./address.js";
import { ColumnChooser } from "./columns.js";
import { element, fill } from "./dom.js";
import { FilePanel } from "./uploads.js";

export class TablePart {
  /** The choices stand in `form` and `state`; `aims` are [{name, label, help, required}], each a column;
      `changed()` is called after every choice. */
  constructor({ form, state, legend, hint, aims, changed, example = null, chooses = true, roles = true }) {
    Object.assign(this, { form, state, aims, chooses, file: null });
    this.aimed = element("div", { class: "stack" });
    this.columns = new ColumnChooser(
      legend,
      () => {
        state.columns = this.columns.kept;
        state.roles = Object.keys(this.columns.roles).length ? JSON.stringify(this.columns.roles) : "";
        changed();
      },
      { roles },
    );
    this.panel = new FilePanel({
      title: "Choose a table",
      hint,
      example,
      chosen: (upload) => {
        if (upload && upload.file !== state.file) state.columns = state.roles = "";
        this.file = upload;
        state.file = upload?.file ?? "";
        fill(this.aimed, upload && aims.map((aim) => this.#select(aim, upload.columns.map(({ name }) => name))));
        this.choose();
        changed();
      },
    });
    this.nodes = [this.panel.node, this.aimed, this.columns.node];
  }

  #select({ name, label, help, required }, names) {
    if (!names.includes(this.form.text(name))) this.form.values[name] = required ? (names.at(-1) ?? "") : "";
    const options = names.map((column) => [column, column]);
    return this.form.select(name, { label, help, options: required ? options : [["", "none"], ...options] });
  }

  /** All columns without a part of their own; identifiers and free text only if they are ticked. */
  choose() {
    const taken = this.aims.map(({ name }) => this.form.text(name));
    const others = (this.file?.columns ?? []).filter(({ name }) => !taken.includes(name));
    const usual = others.filter(({ role }) => !["identifier", "text"].includes(role)).map(({ name }) => name);
    const roles = mapping(this.state.roles);
    this.columns.show(others, list(this.state.columns), usual, roles);
    this.arrange();
  }

  /** The columns and roles as options. What is ticked is sent, unless it is all there is and of one kind:
      verbs differ in what they take by themselves. */
  get asked() {
    const { asked, boxes, names } = this.columns;
    const odd = this.file.columns.some(({ role }) => ["identifier", "text"].includes(role));
    return odd || names.length < boxes.length ? { ...asked, columns: names } : asked;
  }

  /** Show what there is to choose, unless another source is. */
  arrange(shown = true) {
    this.panel.node.hidden = !shown;
    this.aimed.hidden = !shown || !this.file;
    this.columns.node.hidden = !shown || !this.file || !this.chooses;
  }
}
