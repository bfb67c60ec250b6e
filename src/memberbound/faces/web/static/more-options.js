// Arguments of a verb that a page has no place for: fields made from the verb's own declaration.
import { get } from "./api.js";
import { element, fill } from "./dom.js";
import { Invalid } from "./fields.js";

let declared = null;

/** The learners, in the words of a list. */
export const LEARNERS = [
  ["logistic", "logistic regression"],
  ["linear", "linear regression"],
  ["ridge", "ridge regression"],
  ["svm", "support vector machine"],
  ["naive-bayes", "naive Bayes"],
  ["tree", "decision tree"],
  ["random-forest", "random forest"],
  ["boosting", "boosted trees"],
  ["mlp", "small neural network"],
  ["knn", "nearest neighbours"],
];

/** What the server says may be asked of each verb; fetched once. */
function declarations() {
  declared ??= get("/api/verbs").catch((problem) => {
    declared = null;
    throw problem;
  });
  return declared;
}

const words = (name) => name.replaceAll("_", " ").replace(/^./, (letter) => letter.toUpperCase());
const parts = (text) =>
  text
    .split(",")
    .map((part) => part.trim())
    .filter(Boolean);

/** COLUMN=ROLE, COLUMN=ROLE → an object. */
function pairs(name, text) {
  const found = {};
  for (const part of parts(text)) {
    const cut = part.lastIndexOf("=");
    if (cut < 1) throw new Invalid(name, `${words(name)} must be COLUMN=ROLE, got “${part}”.`);
    found[part.slice(0, cut)] = part.slice(cut + 1);
  }
  return found;
}

/** How a kind of argument is typed, and read back; kinds without an entry need files. */
const KINDS = {
  number: { field: "numeric", read: (form, name) => form.number(name, { optional: true }) },
  whole: { field: "numeric", read: (form, name) => form.number(name, { optional: true }) },
  rates: { field: "textual", hint: "0.1, 0.01", read: (form, name) => form.numbers(name) },
  numbers: { field: "textual", hint: "1, 2, …", read: (form, name) => form.numbers(name) },
  names: { field: "textual", hint: "a, b, …", read: (form, name) => parts(form.text(name)) },
  column: { field: "textual", read: (form, name) => form.text(name) },
  text: { field: "textual", read: (form, name) => form.text(name) },
  learner: { field: "select", read: (form, name) => form.text(name) },
  choice: { field: "select", read: (form, name) => form.text(name) },
  switch: { field: "select", read: (form, name) => form.text(name) === "true" },
  roles: { field: "textual", hint: "id=identifier, zip=category", read: (form, name) => pairs(name, form.text(name)) },
};

function options(argument) {
  if (argument.kind === "switch") return [["", "as usual"], ["true", "yes"], ["false", "no"]];
  return [["", "as usual"], ...argument.choices.map((choice) => [choice, choice])];
}

export class MoreOptions {
  /** `placed` are the arguments of `verb` that the page shows itself. */
  constructor(verb, form, placed) {
    this.form = form;
    this.arguments = [];
    this.node = element("details", { class: "more", "data-more": verb, hidden: true });
    this.ready = declarations()
      .then((verbs) => {
        this.arguments = verbs[verb].filter(({ name, kind }) => kind in KINDS && !placed.includes(name));
        this.#show();
      })
      // Without them the page works as before.
      .catch(() => {});
  }

  #show() {
    if (this.arguments.length === 0) return;
    fill(
      this.node,
      element("summary", {}, "More options"),
      this.arguments.map((argument) => {
        const { field, hint } = KINDS[argument.kind];
        const usual = argument.default === null ? undefined : String(argument.default);
        return this.form[field](argument.name, {
          label: words(argument.name),
          help: argument.help,
          placeholder: usual ?? hint,
          options: options(argument),
        });
      }),
    );
    this.node.hidden = false;
  }

  /** The arguments that were given. */
  get asked() {
    const given = {};
    for (const { name, kind } of this.arguments) {
      if (this.form.text(name)) given[name] = KINDS[kind].read(this.form, name);
    }
    return given;
  }
}
