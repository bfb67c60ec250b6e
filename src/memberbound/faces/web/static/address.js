// The whole state of a calculation is in the address: #/page?name=value&…

/** The page and its values. */
export function read() {
  const [page, query = ""] = location.hash.replace(/^#\/?/, "").split(/\?(.*)/s);
  return { page, values: Object.fromEntries(new URLSearchParams(query)) };
}

/** The address of a page with these values. */
export function address(page, values = {}) {
  const query = new URLSearchParams(values).toString();
  return `#/${page}${query ? `?${query}` : ""}`;
}

/** Where each page was left, so that going back to it finds its answers. */
export const left = {};

/** Write the state without a new entry in the history: sliders would fill it. */
export function write(page, values) {
  left[page] = address(page, values);
  history.replaceState(null, "", left[page]);
}

/** How a page keeps its state: of the `values()` of now, what differs from `usual`. */
export const keeping = (page, usual, values) => () =>
  write(
    page,
    Object.fromEntries(Object.entries(values()).filter(([name, value]) => name in usual && value !== usual[name])),
  );

/** An object of texts that is kept in one value. */
export function mapping(text) {
  try {
    const value = JSON.parse(text || "{}");
    return value && typeof value === "object" && !Array.isArray(value) ? value : {};
  } catch {
    return {};
  }
}

/** A list that is kept in one value. */
export function list(text) {
  if (!text) return null;
  try {
    const value = JSON.parse(text);
    return Array.isArray(value) ? value.map(String) : null;
  } catch {
    return null;
  }
}
