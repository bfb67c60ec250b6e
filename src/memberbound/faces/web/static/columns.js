// Which columns of a file are used, and what they hold.
import { element, fill } from "./dom.js";
import { Invalid } from "./fields.js";

const ROLES = ["number", "category", "date", "identifier", "text"];

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

  /** Show the columns of a file; `usual` are the ones that the verb takes by itself. */
  show(columns, picked, usual, roles) {
    this.node.hidden = columns.length === 0;
    this.usual = usual;
    this.boxes = columns.map((column) => this.#box(column, (picked ?? usual).includes(column.name), roles));
    const every = (state) => () => {
      this.boxes.forEach(({ box }) => {
        box.checked = state;
      });
      this.#announce();
      this.changed();
    };
    this.sum = element("span", { class: "quiet", role: "status" });
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
      element(
        "div",
        { class: "boxes" },
        this.boxes.map(({ node }) => node),
      ),
    );
    this.#announce();
  }

  #box(column, checked, roles) {
    const change = () => {
      this.#announce();
      this.changed();
    };
    const box = element("input", { type: "checkbox", onchange: change });
    box.checked = checked;
    const role = this.choosesRoles
      ? element(
          "select",
          { "aria-label": `What ${column.name} holds`, onchange: change },
          element("option", { value: "" }, `detected: ${column.role}`),
          ROLES.filter((name) => name !== column.role).map((name) => element("option", { value: name }, name)),
        )
      : null;
    if (role) role.value = roles[column.name] ?? "";
    const label = element(
      "label",
      {},
      box,
      element("span", { class: "column" }, column.name),
      role ? null : element("span", { class: "quiet" }, column.role),
    );
    const node = role ? element("div", { class: "with-role" }, label, role) : label;
    return { box, role, name: column.name, node };
  }

  #announce() {
    this.sum.textContent = `${this.boxes.filter(({ box }) => box.checked).length} of ${this.boxes.length} chosen`;
  }

  /** The chosen columns as an option: nothing where all are, and none at all is refused. */
  get asked() {
    if (this.names.length === 0) throw new Invalid("columns", "Choose at least one column.");
    const roles = Object.keys(this.roles).length ? { roles: this.roles } : {};
    return this.kept ? { columns: this.names, ...roles } : roles;
  }

  /** The chosen columns as the address keeps them: nothing where they are the usual ones. */
  get kept() {
    const names = this.names;
    const same = names.length === this.usual.length && names.every((name) => this.usual.includes(name));
    return same ? "" : JSON.stringify(names);
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
