// The shell: which page is open, and nothing else.
import { address, left, read } from "./address.js";
import { get } from "./api.js";
import { element, fill } from "./dom.js";
import * as audit from "./page-audit.js";
import * as explain from "./page-explain.js";
import * as plan from "./page-plan.js";
import * as population from "./page-population.js";
import * as protect from "./page-protect.js";
import * as study from "./page-study.js";
import * as table from "./page-table.js";

const PAGES = { explain, table, population, plan, protect, audit, study };
const main = document.getElementById("content");
let close = null;
let opened = "";

function open() {
  const { page, values } = read();
  const name = Object.hasOwn(PAGES, page) ? page : "explain";
  const chosen = PAGES[name];
  close?.();
  if (name === page) left[name] = location.hash;
  document.title = `${chosen.title} · memberbound`;
  fill(
    document.getElementById("pages"),
    Object.entries(PAGES).map(([key, { title }]) =>
      // The link of the open page starts it afresh.
      element(
        "a",
        {
          href: key === name ? address(key) : (left[key] ?? address(key)),
          "aria-current": key === name ? "page" : null,
        },
        title,
      ),
    ),
  );
  const root = element("div", { class: "page", "data-page": name });
  fill(main, element("h1", {}, chosen.heading), root);
  close = chosen.open(root, name === page || page === "" ? values : {});
  // A reader that follows a link to another page starts at its top.
  if (opened && opened !== name) {
    window.scrollTo(0, 0);
    main.focus({ preventScroll: true });
  }
  opened = name;
}

document.getElementById("skip").addEventListener("click", (event) => {
  // The part after # is the state of the page, so it must not change here.
  event.preventDefault();
  main.focus();
});
// A file that misses the drop zone must not replace the page.
for (const kind of ["dragover", "drop"]) window.addEventListener(kind, (event) => event.preventDefault());
window.addEventListener("hashchange", open);
open();

get("/api/health")
  .then(({ version }) => {
    document.getElementById("version").textContent = `memberbound ${version}`;
  })
  .catch(() => {});
