// Explain: what does ε mean, and which ε should we take?
import { address, write } from "./address.js";
import { post } from "./api.js";
import { Chart } from "./charts.js";
import { asking, delayed, element, empty, fill } from "./dom.js";
import { ALWAYS, BY_ACCEPT, BY_NOTION, DEFAULTS, FOUND, fields, options } from "./explain-fields.js";
import { Exports } from "./exporting.js";
import { Form } from "./fields.js";
import { assumptions, meter, summary, verdict } from "./figures.js";

export const title = "Explain";
export const heading = "What does a privacy setting mean, and which one do we need?";

export function open(root, given) {
  const started = { ...DEFAULTS, ...given };
  const results = element("div", { class: "results", "aria-busy": "false" });
  const curve = element("section", { class: "card", "aria-label": "Curve of the best attack", hidden: true });
  const chart = new Chart();
  const exports = new Exports();
  let control = new AbortController();

  const form = new Form("The setting", started, Object.keys(DEFAULTS), () => {
    arrange();
    remember();
    soon();
  });

  function shownFields() {
    const choose = form.text("mode") === "choose";
    const notion = choose && form.text("notion") === "gdp" ? "epsilon" : form.text("notion");
    const accept = choose ? ["accept", ...BY_ACCEPT[form.text("accept")]] : [];
    const precise = choose && form.text("accept") === "interval";
    const own = precise ? [] : BY_NOTION[notion].filter((name) => !(choose && FOUND.includes(name)));
    const fpr = choose && form.text("accept") === "tpr" ? [] : ["fpr"];
    return [...ALWAYS, ...own, ...accept, ...fpr];
  }

  function arrange() {
    const choose = form.text("mode") === "choose";
    const gdp = form.groups.get("notion").querySelector('input[value="gdp"]');
    gdp.disabled = choose;
    if (choose && form.text("notion") === "gdp") form.set("notion", "epsilon");
    form.reveal(form.groups.keys(), shownFields().concat("scale"));
  }

  function remember() {
    const kept = {};
    for (const name of shownFields()) {
      if (
        form.text(name) !== DEFAULTS[name] ||
        ["mode", "notion"].includes(name) ||
        BY_NOTION[form.text("notion")].includes(name)
      )
        kept[name] = form.text(name);
    }
    if (form.text("scale") !== DEFAULTS.scale) kept.scale = form.text("scale");
    write("explain", kept);
  }

  async function calculate() {
    control.abort();
    control = new AbortController();
    const { signal } = control;
    // What is in sight belongs to another answer until this one is there.
    chart.shown = null;
    results.setAttribute("aria-busy", "true");
    try {
      const shown = await post(`/api/explain/page?scale=${form.text("scale")}`, options(form), signal);
      form.clear();
      show(shown);
    } catch (problem) {
      if (problem.name !== "AbortError") refuse(problem);
    } finally {
      if (!signal.aborted) results.setAttribute("aria-busy", "false");
    }
  }

  function refuse(problem) {
    form.refuse(problem);
    fill(results, empty("No answer for these values; see the note beside the field."));
    curve.hidden = true;
    chart.hide();
    exports.hide();
  }

  function show(shown) {
    const answer = shown.result;
    const choosing = form.text("mode") === "choose";
    const sgd = answer.notion === "DP-SGD";
    const next = {
      mode: "choose",
      notion: sgd ? "sgd" : "epsilon",
      delta: form.text("delta"),
      ...(sgd ? { sample_rate: form.text("sample_rate"), steps: form.text("steps") } : {}),
    };
    fill(
      results,
      verdict(answer.sentence),
      meter(answer),
      summary(shown.summary, answer.sentence),
      element(
        "p",
        { class: "quiet" },
        choosing
          ? "Bounds are rounded up in the last digit shown, so the promise may look slightly above what you asked for."
          : ["Too weak for you? ", element("a", { href: address("explain", next) }, "Find the setting for the promise you want to make.")],
      ),
      assumptions(answer),
    );
    curve.hidden = false;
    chart.show(
      shown.charts.roc,
      "Every attack lies on or below the line. The further it bends away from the dotted diagonal, the better membership can be guessed.",
    );
    exports.of({ ...shown, files: [] }, chart);
  }

  const soon = delayed(calculate, 180);

  form.node.append(...fields(form, given), form.problem);

  curve.append(
    element(
      "div",
      { class: "headline" },
      element("h2", {}, "The best possible attack"),
      form.choice("scale", {
        label: "Axes",
        options: [
          ["linear", "linear"],
          ["log", "log–log"],
        ],
      }),
    ),
    chart.node,
  );
  root.append(asking(form, results, curve, exports.node));
  fill(results, empty("Calculating …"));
  arrange();
  remember();
  calculate();
  return () => {
    soon.cancel();
    control.abort();
  };
}
