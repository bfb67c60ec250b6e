// What the theme's own scripts leave unnamed, for people who do not see the page.
const mended = () => {
  document.querySelector(".md-search")?.setAttribute("aria-label", "Search");
  document.querySelectorAll(".md-typeset__scrollwrap").forEach((place) => place.setAttribute("tabindex", "0"));
  document.querySelectorAll(".md-code__nav").forEach((place, index) => {
    place.setAttribute("aria-label", `Code ${index + 1}`);
  });
};
mended();
new MutationObserver(mended).observe(document.body, { childList: true, subtree: true });
