// The shell: which page is open, and nothing else.
import { address, left, read } from "./address.js";
import { get } from "./api.js";
import { declarations } from "./arguments.js";
import { element, fill } from "./dom.js";
import * as explain from "./page-explain.js";
import * as home from "./page-home.js";
import * as study from "./page-study.js";
import { pageOf } from "./page-verb.js";

/** Pages of their own; every other verb has one that is made from its declaration. */
const OWN = { home, study, explain };
let pages = OWN;
const main = document.getElementById("content");
let close = null;
let opened = "";

function open() {
  const { page, values } = read();
  const name = Object.hasOwn(pages, page) ? page : "home";
  const chosen = pages[name];
  close?.();
  if (name === page) left[name] = location.hash;
  document.title = `${chosen.title} · memberbound`;
  fill(
    document.getElementById("pages"),
    Object.entries(pages).map(([key, { title }]) =>
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

declarations()
  .then((verbs) => {
    const made = Object.entries(verbs).filter(([name]) => !Object.hasOwn(OWN, name));
    pages = { ...OWN, ...Object.fromEntries(made.map(([name, verb]) => [name, pageOf(name, verb)])) };
  })
  // Without them the pages of their own still work.
  .catch(() => {})
  .finally(open);

get("/api/health")
  .then(({ version }) => {
    document.getElementById("version").textContent = `memberbound ${version}`;
  })
  .catch(() => {});
