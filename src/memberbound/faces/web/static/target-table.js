// A table with a column to predict: the file, the target, and the columns that are seen.
import { list, mapping } from "./address.js";
import { ColumnChooser } from "./columns.js";
import { element, fill } from "./dom.js";
import { FilePanel } from "./uploads.js";

export class TargetTable {
  /** The choices stand in `form` and `state`; `changed()` is called after each, `chosen(file)` before
      it where the file is another. With `roles`, what a column holds can be said as well. */
  constructor({ form, state, legend, hint, help, changed, example = null, chosen = () => {}, roles = true }) {
    this.form = form;
    this.state = state;
    this.file = null;
    this.aim = element("div", {});
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
      chosen: (found) => {
        if (found && found.file !== state.file) {
          form.values.target = found.columns.at(-1)?.name ?? "";
          state.columns = state.roles = "";
        }
        this.file = found;
        state.file = found?.file ?? "";
        const options = found?.columns.map(({ name }) => [name, name]);
        fill(this.aim, found && form.select("target", { label: "Column to predict", help, options }));
        this.choose();
        chosen(found);
        changed();
      },
    });
    this.nodes = [this.panel.node, this.aim, this.columns.node];
  }

  /** All columns but the target; identifiers and free text are left out unless they are ticked. */
  choose() {
    const all = this.file?.columns ?? [];
    const others = all.filter(({ name }) => name !== this.form.text("target"));
    const usual = others.filter(({ role }) => !["identifier", "text"].includes(role)).map(({ name }) => name);
    const roles = mapping(this.state.roles);
    this.columns.show(others, list(this.state.columns), { rows: this.file?.rows, usual, roles });
  }

  /** Show what there is to choose, unless another source is. */
  arrange(shown = true) {
    this.panel.node.hidden = !shown;
    this.aim.hidden = !shown || !this.file;
    this.columns.node.hidden = !shown || !this.file;
  }
}
