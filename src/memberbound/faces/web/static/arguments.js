// Fields made from a verb's own declaration, and what was typed as the arguments of the verb.
import { get } from "./api.js";
import { element, fill } from "./dom.js";
import { Invalid } from "./fields.js";

let declared = null;

/** What the server says may be asked of each verb; fetched once. */
export function declarations() {
  declared ??= get("/api/verbs").catch((problem) => {
    declared = null;
    throw problem;
  });
  return declared;
}

/** A name of Python or of the command line as people write it. */
export const words = (name) => name.replaceAll(/[_-]/g, " ").replace(/^./, (letter) => letter.toUpperCase());
const parts = (list, mark = ",") => list.split(mark).map((part) => part.trim()).filter(Boolean);

/** COLUMN=VALUE, … → an object; `mark` stands between the pairs. */
function pairs(name, text, mark, value) {
  const given = {};
  for (const part of parts(text, mark)) {
    const cut = part.lastIndexOf("=");
    if (cut < 1) throw new Invalid(name, `${words(name)} must be COLUMN=VALUE, got “${part}”.`);
    given[part.slice(0, cut)] = value(part.slice(cut + 1));
  }
  return given;
}

const number = { field: "numeric", read: (form, name) => form.number(name, { optional: true }) };
const numbers = { field: "textual", hint: "1, 2, …", read: (form, name) => form.numbers(name) };
const text = { field: "textual", read: (form, name) => form.text(name) };
const choice = { field: "select", read: (form, name) => form.text(name) };
const yesOrNo = { field: "select", read: (form, name) => form.text(name) === "true" };

/** How a kind of argument is typed, and read back; kinds without an entry need files. */
const KINDS = {
  number,
  whole: number,
  rates: { ...numbers, hint: "0.1, 0.01" },
  numbers,
  law: { ...numbers, hint: "0.5, 0.25, 0.25" },
  names: { field: "textual", hint: "a, b, …", read: (form, name) => parts(form.text(name)) },
  column: text,
  text,
  document: { field: "textual", rows: 5, hint: "age: [0, 120]\nsex: [F, M]", read: (form, name) => `${form.text(name)}\n` },
  learner: choice,
  choice,
  switch: yesOrNo,
  records: yesOrNo,
  roles: { ...text, hint: "id=identifier, zip=category", read: (form, name) => pairs(name, form.text(name), ",", String) },
  "numbers by column": {
    field: "textual",
    rows: 2,
    hint: "age=18,30,65",
    read: (form, name) => pairs(name, form.text(name), "\n", (cuts) => parts(cuts).map(Number)),
  },
};

/** Whether an argument can be typed. */
export const isTyped = ({ kind }) => kind in KINDS;

function options({ kind, choices, required }) {
  const usual = required ? [] : [["", "as usual"]];
  if (["switch", "records"].includes(kind)) return [...usual, ["true", "yes"], ["false", "no"]];
  return [...usual, ...choices.map((one) => [one, one])];
}

/** The field of an argument in a form. */
export function field(form, argument) {
  const { field: kind, hint, rows } = KINDS[argument.kind];
  return form[kind](argument.name, {
    label: argument.label,
    help: argument.help,
    placeholder: argument.default === null ? hint : String(argument.default),
    options: options(argument),
    rows,
  });
}

/** What was typed for these arguments; those left empty are left out. */
export function typed(form, list) {
  const given = {};
  for (const { name, kind } of list) {
    if (form.text(name)) given[name] = KINDS[kind].read(form, name);
  }
  return given;
}

/** Arguments that a page of its own has no place for. */
export class MoreOptions {
  /** `placed` are the arguments of `verb` that the page shows itself. */
  constructor(verb, form, placed) {
    this.form = form;
    this.arguments = [];
    this.node = element("details", { class: "more", "data-more": verb, hidden: true });
    this.ready = declarations()
      .then((verbs) => {
        this.arguments = verbs[verb].arguments.filter((each) => isTyped(each) && !placed.includes(each.name));
        fill(
          this.node,
          element("summary", {}, "More options"),
          this.arguments.map((argument) => field(form, argument)),
        );
        this.node.hidden = this.arguments.length === 0;
      })
      // Without them the page works as before.
      .catch(() => {});
  }

  /** The arguments that were given. */
  get asked() {
    return typed(this.form, this.arguments);
  }
}
