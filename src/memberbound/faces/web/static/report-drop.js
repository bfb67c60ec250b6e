// Opening a report.json that somebody has: chosen, or dropped on the page.
import { element, fill, notice } from "./dom.js";

export class ReportDrop {
  /** `begun()` is called when a file was chosen, `show(report)` with what it holds; it may refuse. */
  constructor({ begun, show }) {
    this.begun = begun;
    this.show = show;
    this.status = element("div", { class: "filestatus", "aria-live": "polite" });
    const input = element("input", {
      type: "file",
      accept: ".json,application/json",
      class: "unseen",
      id: "file-report",
      onchange: () => {
        if (input.files[0]) this.open(input.files[0]);
        input.value = "";
      },
    });
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
          if (event.dataTransfer.files[0]) this.open(event.dataTransfer.files[0]);
        },
      },
      input,
      element("label", { for: "file-report", class: "button" }, "Open a report.json"),
      element("p", { class: "quiet" }, "or drop one here, to read it as a page."),
    );
    this.node = element(
      "section",
      { class: "card", "aria-labelledby": "open-report" },
      element("h2", { id: "open-report" }, "Open a report"),
      this.zone,
      this.status,
    );
  }

  async open(chosen) {
    this.begun();
    const name = () => element("strong", {}, chosen.name);
    fill(this.status, element("p", {}, "Reading ", name(), " …"));
    let report;
    try {
      report = JSON.parse(await chosen.text());
    } catch {
      fill(this.status, notice("bad", name(), " must be a report.json, got a file that is not JSON."));
      return;
    }
    try {
      await this.show(report);
      fill(this.status, element("p", { class: "taken" }, name(), " is shown below."));
    } catch (problem) {
      fill(this.status, notice("bad", name(), `: ${problem.message}`));
    }
  }
}
