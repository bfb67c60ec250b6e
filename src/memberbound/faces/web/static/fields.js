// A form whose values are text, named as the verb's keyword arguments, and live in the address.
import { element, fill, freshId } from "./dom.js";
import { tip } from "./tips.js";

/** A value that cannot be sent. */
export class Invalid extends Error {
  constructor(name, message) {
    super(message);
    this.field = name;
  }
}

const STOPS = 1000;

function fromStop(stop, { from, to, log, digits = 2 }) {
  const share = stop / STOPS;
  const value = log ? from * (to / from) ** share : from + (to - from) * share;
  return Number(value.toPrecision(digits + (value >= 1 ? 1 : 0)));
}

function toStop(value, { from, to, log }) {
  if (!Number.isFinite(value)) return 0;
  const inside = Math.min(Math.max(value, from), to);
  const share = log ? Math.log(inside / from) / Math.log(to / from) : (inside - from) / (to - from);
  return Math.round(share * STOPS);
}

export class Form {
  /** `names` are its fields among `values`; `changed` is called with the name of a changed one. */
  constructor(label, values, names, changed) {
    this.values = Object.fromEntries(names.map((name) => [name, values[name] ?? ""]));
    this.changed = changed;
    this.inputs = new Map();
    this.groups = new Map();
    this.problem = element("div", { class: "problem", role: "alert", id: freshId("problem") });
    this.node = element("form", {
      "aria-label": label,
      novalidate: true,
      autocomplete: "off",
      onsubmit: (event) => event.preventDefault(),
    });
  }

  /** What the button starts; what it refuses is said beside the field. */
  starts(button, act) {
    this.node.addEventListener("submit", () => {
      if (button.disabled) return;
      try {
        act();
      } catch (problem) {
        this.refuse(problem);
      }
    });
  }

  text(name) {
    return (this.values[name] ?? "").trim();
  }

  /** The number of a field; null where it is empty and may be. */
  number(name, { optional = false } = {}) {
    const text = this.text(name);
    const label = this.inputs.get(name)?.label ?? name;
    if (text === "") {
      if (optional) return null;
      throw new Invalid(name, `${label} must be a number, got nothing.`);
    }
    const value = Number(text);
    if (!Number.isFinite(value)) throw new Invalid(name, `${label} must be a number, got “${text}”.`);
    return value;
  }

  /** The η of a field that says, in percent, how often somebody may be right. */
  gain(name) {
    return Number(((this.number(name) - 50) / 100).toFixed(14));
  }

  /** Numbers separated by commas or spaces. */
  numbers(name) {
    const label = this.inputs.get(name)?.label ?? name;
    return this.text(name)
      .split(/[\s,;]+/)
      .filter(Boolean)
      .map((part) => {
        const value = Number(part);
        if (!Number.isFinite(value))
          throw new Invalid(name, `${label} must be numbers separated by commas, got “${part}”.`);
        return value;
      });
  }

  /** Change a value from outside, as if it had been typed. */
  set(name, value) {
    this.values[name] = String(value);
    this.inputs.get(name)?.show(String(value));
  }

  #typed(name, value) {
    this.values[name] = value;
    this.clear();
    this.changed(name);
  }

  /** Show what is wrong and mark the field it is about. */
  refuse(problem) {
    this.clear();
    fill(this.problem, element("strong", {}, "Please check: "), problem.message);
    const name =
      problem.field ??
      [...this.inputs.keys()].filter((key) => problem.message.startsWith(key)).sort((a, b) => b.length - a.length)[0];
    const field = this.inputs.get(name);
    const group = this.groups.get(name);
    if (group && this.node.contains(group) && !group.hidden) {
      // Beside the field it is about.
      const folded = group.closest("details");
      if (folded) folded.open = true;
      group.after(this.problem);
    }
    if (field?.input) {
      field.input.setAttribute("aria-invalid", "true");
      field.input.setAttribute("aria-errormessage", this.problem.id);
    }
  }

  clear() {
    this.problem.replaceChildren();
    for (const { input } of this.inputs.values()) {
      input?.removeAttribute("aria-invalid");
      input?.removeAttribute("aria-errormessage");
    }
  }

  #wrap(name, label, help, id, ...inner) {
    const node = element(
      "div",
      { class: "field", "data-field": name },
      element("div", { class: "name" }, element("label", { for: id }, label), help ? tip(label, help) : null),
      ...inner,
    );
    this.groups.set(name, node);
    return node;
  }

  /** A number with an optional slider: {from, to, log}. */
  numeric(name, { label, help, slider, placeholder, unit }) {
    const id = freshId(name);
    const typed = element("input", {
      id,
      name,
      type: "text",
      inputmode: "decimal",
      value: this.text(name),
      placeholder,
      spellcheck: "false",
    });
    const parts = [];
    let range = null;
    if (slider) {
      range = element("input", {
        type: "range",
        min: 0,
        max: STOPS,
        step: 1,
        "aria-label": `${label}, slider`,
        name: `${name}-slider`,
      });
      const move = () => {
        range.value = toStop(Number(typed.value), slider);
        range.setAttribute("aria-valuetext", `${typed.value}${unit ? ` ${unit}` : ""}`);
      };
      move();
      range.addEventListener("input", () => {
        typed.value = String(fromStop(Number(range.value), slider));
        range.setAttribute("aria-valuetext", `${typed.value}${unit ? ` ${unit}` : ""}`);
        this.#typed(name, typed.value);
      });
      typed.addEventListener("input", move);
      parts.push(range);
    }
    typed.addEventListener("input", () => this.#typed(name, typed.value));
    const show = (value) => {
      typed.value = value;
      if (range) range.value = toStop(Number(value), slider);
    };
    this.inputs.set(name, { input: typed, label, show });
    return this.#wrap(
      name,
      label,
      help,
      id,
      element(
        "div",
        { class: slider ? "pair" : "single" },
        ...parts,
        element("span", { class: "typed" }, typed, unit ? element("span", { class: "unit" }, unit) : null),
      ),
    );
  }

  /** Free text; `rows` makes it a text area. */
  textual(name, { label, help, placeholder, rows }) {
    const id = freshId(name);
    const input = element(rows ? "textarea" : "input", {
      id,
      name,
      type: rows ? null : "text",
      rows,
      placeholder,
      spellcheck: "false",
      value: this.text(name),
    });
    input.addEventListener("input", () => this.#typed(name, input.value));
    return this.#plain(name, label, help, id, input);
  }

  /** A field whose input holds its value. */
  #plain(name, label, help, id, input) {
    const show = (value) => {
      input.value = value;
    };
    this.inputs.set(name, { input, label, show });
    return this.#wrap(name, label, help, id, input);
  }

  /** One of several options: [value, words]. */
  select(name, { label, help, options }) {
    const id = freshId(name);
    const input = element(
      "select",
      { id, name },
      options.map(([value, words]) => element("option", { value }, words)),
    );
    input.value = this.text(name);
    if (input.selectedIndex < 0) {
      input.selectedIndex = 0;
      this.values[name] = input.value;
    }
    input.addEventListener("change", () => this.#typed(name, input.value));
    return this.#plain(name, label, help, id, input);
  }

  /** One of few options, all in sight. */
  choice(name, { label, help, options }) {
    const group = freshId(name);
    if (!options.some(([value]) => value === this.text(name))) this.values[name] = options[0][0];
    const radios = options.map(([value, words]) => {
      const input = element("input", { type: "radio", name: group, value, id: freshId(name) });
      input.checked = this.text(name) === value;
      input.addEventListener("change", () => this.#typed(name, value));
      return { input, node: element("label", { class: "option" }, input, element("span", {}, words)) };
    });
    this.inputs.set(name, {
      input: null,
      label,
      show: (value) =>
        radios.forEach(({ input }) => {
          input.checked = input.value === value;
        }),
    });
    const node = element(
      "fieldset",
      { class: "choice", "data-field": name },
      element("legend", {}, label, help ? tip(label, help) : null),
      element(
        "div",
        { class: "options" },
        radios.map((radio) => radio.node),
      ),
    );
    this.groups.set(name, node);
    return node;
  }

  /** Show only these fields among the ones named. */
  reveal(names, shown) {
    for (const name of names) {
      const node = this.groups.get(name);
      if (node) node.hidden = !shown.includes(name);
    }
  }
}
