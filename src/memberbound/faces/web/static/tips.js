// An explanation beside a field: on hover, on focus and on touch; Escape closes it.
import { element, freshId } from "./dom.js";

function place(bubble, button) {
  const edge = 8;
  const from = button.getBoundingClientRect();
  const wide = Math.min(340, document.documentElement.clientWidth - 2 * edge);
  bubble.style.width = `${wide}px`;
  const left = Math.min(Math.max(edge, from.left - 12), document.documentElement.clientWidth - wide - edge);
  bubble.style.left = `${left}px`;
  const tall = bubble.offsetHeight;
  const below = from.bottom + 6;
  bubble.style.top = `${below + tall < window.innerHeight ? below : Math.max(edge, from.top - tall - 6)}px`;
}

/** A question mark that explains `about`. */
export function tip(about, text) {
  const id = freshId("tip");
  const bubble = element("span", { role: "tooltip", id, class: "bubble" }, text);
  const follow = () => place(bubble, button);
  const show = () => {
    bubble.classList.add("shown");
    follow();
    window.addEventListener("scroll", follow, { capture: true, passive: true });
  };
  const hide = () => {
    bubble.classList.remove("shown");
    window.removeEventListener("scroll", follow, { capture: true });
  };
  const button = element(
    "button",
    {
      type: "button",
      class: "why",
      "aria-label": `About ${about}`,
      "aria-describedby": id,
      onfocus: show,
      onblur: hide,
      onclick: show,
      onkeydown: (event) => {
        if (event.key === "Escape") hide();
      },
    },
    "?",
  );
  // The bubble lies inside, so that the pointer may rest on it.
  return element(
    "span",
    {
      class: "tip",
      onmouseenter: show,
      onmouseleave: () => {
        if (document.activeElement !== button) hide();
      },
    },
    button,
    bubble,
  );
}
