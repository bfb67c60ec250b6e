// Which columns of a file are used, and what they hold.
import { count, element, fill } from "./dom.js";
import { Invalid } from "./fields.js";

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
      this.#announce();
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
    this.#announce();
  }

  #box(column, checked, rows, roles) {
    const change = () => {
      this.#announce();
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
    const identifiers = this.boxes.filter(({ box, unique }) => unique && box.checked);
    fill(
      this.advice,
      identifiers.map((each) =>
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
                this.#announce();
                this.changed();
              },
            },
            "Leave it out",
          ),
        ),
      ),
    );
  }

  #announce() {
    this.#advise();
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
