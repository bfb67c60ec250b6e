// Long work: started, watched, cancelled; its id is in the address, so that a reload finds it again.
import { element, fill, notice, say } from "./dom.js";
import { get, post, remove } from "./api.js";

const wait = (seconds, signal) =>
  new Promise((resolve) => {
    const timer = setTimeout(resolve, seconds * 1000);
    signal.addEventListener("abort", () => {
      clearTimeout(timer);
      resolve();
    });
  });

const STATES = {
  queued: "Waiting for its turn",
  running: "Working",
  done: "Done",
  failed: "Failed",
  cancelled: "Cancelled",
};

export class JobPanel {
  /** `finished(job)` is called with a finished job; the id stands in `state[key]`, which `remember`
      keeps; an answer is headed by the name of its table, unless the page does that (`named: false`). */
  constructor({ finished, state, remember, key = "job", named = true }) {
    this.finished = finished;
    this.named = named;
    this.changed = (id) => {
      state[key] = id;
      remember();
    };
    this.node = element("div", { class: "job", "data-state": "none", tabindex: "-1" });
    this.control = null;
    this.busy = false;
  }

  /** Start a job; what was under way in this panel is cancelled first. */
  async start(verb, file, options) {
    if (this.busy) await this.cancel();
    this.stop();
    this.#state("queued");
    fill(this.node, element("p", {}, "Sending the question …"));
    try {
      const { job } = await post("/api/jobs", { verb, file, options });
      this.changed(job);
      await this.follow(job);
    } catch (problem) {
      this.#state("failed");
      fill(this.node, notice("bad", problem.message));
    }
  }

  /** Watch a job until it ends. */
  async follow(id) {
    this.stop();
    const control = new AbortController();
    this.control = control;
    this.id = id;
    this.busy = true;
    let pause = 0.15;
    try {
      for (;;) {
        const job = await get(`/api/jobs/${encodeURIComponent(id)}`, control.signal);
        if (control.signal.aborted) return;
        this.#show(job);
        if (!["queued", "running"].includes(job.state)) {
          this.busy = false;
          if (job.state === "done") this.finished(job);
          return;
        }
        await wait(pause, control.signal);
        if (control.signal.aborted) return;
        pause = Math.min(1, pause * 1.3);
      }
    } catch (problem) {
      if (control.signal.aborted) return;
      this.busy = false;
      this.#state("failed");
      const lost = problem.status === 404;
      fill(
        this.node,
        notice(
          lost ? "note" : "bad",
          lost ? "This result is no longer kept by the server. Calculate it again." : problem.message,
        ),
      );
    }
  }

  async cancel() {
    const id = this.id;
    // The button that was pressed goes away; the place where it was keeps the focus.
    if (this.node.contains(document.activeElement)) this.node.focus();
    this.stop();
    try {
      if (id) await remove(`/api/jobs/${encodeURIComponent(id)}`);
    } catch (problem) {
      // Somebody else may have cancelled it, or the server has dropped it: both are what was asked.
      if (problem.status !== 404) {
        this.#state("failed");
        fill(this.node, notice("bad", problem.message));
        return;
      }
    }
    this.#state("cancelled");
    this.changed("");
    fill(this.node, notice("note", "Cancelled. The calculation was stopped and its files were removed."));
    say("Cancelled.");
  }

  /** Say that the answer in sight belongs to other settings. */
  outdated() {
    if (this.node.dataset.state === "done")
      fill(
        this.node,
        this.about,
        notice("note", "The settings have changed since this answer. Calculate again to see their effect."),
      );
  }

  /** Forget the answer. */
  clear() {
    this.stop();
    this.node.dataset.state = "none";
    fill(this.node);
  }

  /** Stop watching; the job itself goes on. */
  stop() {
    this.control?.abort();
    this.busy = false;
  }

  #state(name) {
    if (this.node.dataset.state !== name && STATES[name]) say(STATES[name]);
    this.node.dataset.state = name;
  }

  /** About how long it will go on, once there is something to judge by. */
  #left(job, done, total) {
    if (!total || done / total < 0.1 || done >= total) return "";
    const seconds = Math.round((job.seconds * (total - done)) / done / 5) * 5;
    if (seconds < 5) return "";
    return `, about ${seconds < 90 ? `${seconds} s` : `${Math.round(seconds / 60)} min`} left`;
  }

  #show(job) {
    this.#state(job.state);
    if (job.state === "done") {
      // The name the server has: the file in the form may be another one by now.
      this.about =
        this.named && job.data
          ? element("p", { class: "about" }, "Table: ", element("strong", {}, job.data))
          : null;
      fill(this.node, this.about);
      return;
    }
    if (job.state === "failed") {
      fill(this.node, notice("bad", job.error?.message ?? "The calculation failed."));
      return;
    }
    if (job.state === "cancelled") {
      fill(this.node, notice("note", "Cancelled. The calculation was stopped and its files were removed."));
      return;
    }
    const { done = 0, total = null, label = "" } = job.progress ?? {};
    const words = `${STATES[job.state]}${label ? `: ${label}` : ""}`;
    if (!this.bar?.isConnected) {
      this.words = element("p", {});
      this.bar = element("progress", { "aria-label": "Progress of the calculation" });
      fill(
        this.node,
        element(
          "div",
          { class: "working" },
          this.words,
          this.bar,
          element("button", { type: "button", class: "cancel", onclick: () => this.cancel() }, "Cancel"),
        ),
      );
    }
    this.words.textContent = `${words}, ${Math.round(job.seconds ?? 0)} s${this.#left(job, done, total)}`;
    if (total) {
      this.bar.max = total;
      this.bar.value = done;
    } else this.bar.removeAttribute("value");
  }
}
