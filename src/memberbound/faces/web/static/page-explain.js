// Explain: what does ε mean, and which ε should we take?
import { address, step, write } from "./address.js";
import { post } from "./api.js";
import { Chart } from "./charts.js";
import { asking, delayed, element, empty, fill, table } from "./dom.js";
import { ALWAYS, BY_ACCEPT, BY_NOTION, DEFAULTS, FOUND, fields, options, share } from "./explain-fields.js";
import { Exports } from "./exporting.js";
import { Form } from "./fields.js";
import { assumptions, figure, meter, verdict } from "./figures.js";

export const title = "Explain";
export const heading = "What does a privacy setting mean, and which one do we need?";

const LADDER = [0.1, 0.25, 0.5, 1, 2, 4, 8, 16];
const PROMISES = [51, 52, 55, 60, 65, 75, 90];

export function open(root, given) {
  const started = { ...DEFAULTS, ...given };
  const results = element("div", { class: "results", "aria-busy": "false" });
  const ladder = element("section", { class: "card", hidden: true });
  const curve = element("section", { class: "card", "aria-label": "Curve of the best attack", hidden: true });
  const chart = new Chart();
  const exports = new Exports();
  let control = new AbortController();
  let latest = null;
  let ladderKey = "";

  const form = new Form("The setting", started, Object.keys(DEFAULTS), (name) => {
    arrange();
    remember();
    if (name === "scale") drawCurve();
    else soon();
  });

  function shownFields() {
    const choose = form.text("mode") === "choose";
    const notion = choose && form.text("notion") === "gdp" ? "epsilon" : form.text("notion");
    const accept = choose ? ["accept", ...BY_ACCEPT[form.text("accept")]] : [];
    const own = BY_NOTION[notion].filter((name) => !(choose && FOUND.includes(name)));
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
    let asked;
    try {
      asked = options(form);
    } catch (problem) {
      refuse(problem);
      return;
    }
    results.setAttribute("aria-busy", "true");
    try {
      const [answer, numbers] = await Promise.all(
        ["", "/figures"].map((part) => post(`/api/explain${part}`, asked, signal)),
      );
      if (signal.aborted) return;
      latest = { answer, numbers, asked };
      form.clear();
      show();
      compare(asked);
    } catch (problem) {
      if (problem.name !== "AbortError") refuse(problem);
    } finally {
      if (!signal.aborted) results.setAttribute("aria-busy", "false");
    }
  }

  function refuse(problem) {
    latest = null;
    form.refuse(problem);
    fill(results, empty("No answer for these values; see the note beside the field."));
    curve.hidden = true;
    chart.hide();
    exports.hide();
    ladder.hidden = true;
  }

  function show() {
    const { answer, numbers } = latest;
    const choosing = form.text("mode") === "choose";
    fill(
      results,
      verdict(answer.sentence),
      meter(numbers),
      element("div", { class: "figures" }, numbers.figures.map(figure)),
      choosing
        ? element(
            "p",
            { class: "quiet" },
            "Bounds are rounded up in the last digit shown, so the promise may look slightly above what you asked for.",
          )
        : null,
      choosing
        ? null
        : element(
            "p",
            { class: "next" },
            "Too weak for you? ",
            element(
              "a",
              {
                href: address("explain", {
                  mode: "choose",
                  notion: answer.notion === "DP-SGD" ? "sgd" : "epsilon",
                  delta: form.text("delta"),
                  ...(answer.notion === "DP-SGD"
                    ? { sample_rate: form.text("sample_rate"), steps: form.text("steps") }
                    : {}),
                }),
              },
              "Find the setting for the promise you want to make.",
            ),
          ),
      assumptions(answer),
    );
    drawCurve();
    exports.show({ name: "memberbound-explain", sentence: answer.sentence, json: answer, chart, command: numbers.command, python: numbers.python });
  }

  async function drawCurve() {
    if (!latest) return;
    const { signal } = control;
    const scale = form.text("scale");
    // What is in sight belongs to another answer until this one is drawn.
    chart.shown = null;
    try {
      const drawn = await post(`/api/explain/chart?scale=${scale}`, latest.asked, signal);
      // The answer or the axes may have changed meanwhile.
      if (signal.aborted || scale !== form.text("scale")) return;
      curve.hidden = false;
      chart.show(
        drawn,
        "Every attack lies on or below the line. The further it bends away from the dotted diagonal, the better membership can be guessed.",
      );
    } catch (problem) {
      if (problem.name !== "AbortError") chart.hide();
    }
  }

  /** The same question at other settings, side by side. */
  async function compare(asked) {
    const choose = form.text("mode") === "choose";
    const useful = form.text("notion") === "epsilon" && (!choose || form.text("accept") === "accuracy");
    ladder.hidden = !useful;
    if (!useful) return;
    const { epsilon, target_eta: target, ...rest } = asked;
    const key = JSON.stringify([choose, rest]);
    const same = key === ladderKey;
    ladderKey = key;
    const { signal } = control;
    try {
      if (!same || !ladder.answers) {
        const questions = choose
          ? PROMISES.map((value) => ({ ...rest, target_eta: share(value - 50) }))
          : LADDER.map((value) => ({ ...rest, epsilon: value }));
        ladder.answers = null;
        // A promise that δ alone breaks has no ε; the row says so.
        const answers = await Promise.all(
          questions.map((question) =>
            post("/api/explain/figures", question, signal).catch((problem) => {
              if (problem.name === "AbortError") throw problem;
              return null;
            }),
          ),
        );
        ladder.answers = answers;
      }
    } catch {
      ladderKey = "";
      return;
    }
    if (signal.aborted) return;
    const rows = ladder.answers.map((answer, index) => {
      const promise = PROMISES[index];
      const value = choose ? promise : LADDER[index];
      const use = element(
        "button",
        {
          type: "button",
          class: "small",
          "aria-label": choose ? `Use ${promise} %` : `Use ε = ${value}`,
          onclick: () => {
            step();
            form.set(choose ? "accept_accuracy" : "epsilon", value);
            remember();
            calculate();
          },
        },
        "Use",
      );
      const current = choose ? target === share(promise - 50) : epsilon === value;
      if (!answer)
        return { current, cells: [choose ? `${promise} %` : `ε = ${value}`, "not possible at this δ", "", use] };
      const first = choose
        ? [`${promise} %`, `ε = ${answer.epsilon}`]
        : [`ε = ${value}`, answer.success];
      return { current, cells: [...first, answer.identified, use] };
    });
    const column = `members identified at ${ladder.answers.find(Boolean)?.rate ?? "1 %"} false alarms`;
    fill(
      ladder,
      element("h2", {}, choose ? "Which ε for which promise?" : "Other ε side by side"),
      choose
        ? table("Largest ε that keeps a promise", ["nobody is right more than", "largest ε", column, "take it"], rows)
        : table("What other values of ε allow", ["setting", "attack success at most", column, "take it"], rows),
    );
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
  root.append(asking(form, results, ladder, curve, exports.node));
  fill(results, empty("Calculating …"));
  arrange();
  remember();
  calculate();
  return () => {
    soon.cancel();
    control.abort();
  };
}
