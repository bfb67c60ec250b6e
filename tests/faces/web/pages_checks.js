// Asked of a page in the tests: what would some readers miss? Each function gives a list of texts.
({
  // Texts whose contrast with what lies behind them is below WCAG's 4.5; disabled controls exempt.
  faint() {
    const parsed = (text) => {
      const parts = text.match(/[\d.]+/g).map(Number);
      return [parts[0], parts[1], parts[2], parts.length > 3 ? parts[3] : 1];
    };
    const over = (top, bottom) => [0, 1, 2].map((i) => top[i] * top[3] + bottom[i] * (1 - top[3]));
    const linear = (v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    const light = (rgb) => {
      const [r, g, b] = rgb.map((v) => linear(v / 255));
      return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const behind = (node) => {
      const layers = [];
      for (let at = node; at instanceof Element; at = at.parentElement) {
        const found = parsed(getComputedStyle(at).backgroundColor);
        if (found[3] > 0) layers.push(found);
        if (found[3] === 1) break;
      }
      return layers.reverse().reduce((below, layer) => over(layer, below), [255, 255, 255]);
    };
    const exempt = ".unseen, .skip, script, style, noscript, :disabled, label:has(:disabled)";
    const bad = [];
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
      const text = walker.currentNode.textContent.trim();
      const holder = walker.currentNode.parentElement;
      const seen = holder.checkVisibility({ visibilityProperty: true, opacityProperty: true });
      if (!text || !seen || holder.closest(exempt)) continue;
      const style = getComputedStyle(holder);
      const drawn = holder instanceof SVGElement;
      const back = behind(drawn ? holder.closest(".plot") : holder);
      const front = over(parsed(drawn ? style.fill : style.color), back);
      const [a, b] = [light(front), light(back)].sort((x, y) => y - x);
      const ratio = (a + 0.05) / (b + 0.05);
      if (ratio < 4.5) bad.push(`${text.slice(0, 40)}: ${ratio.toFixed(2)}`);
    }
    return bad;
  },
  // Controls and pictures that a screen reader could not name.
  nameless() {
    const kinds = "input, select, textarea, button, a, iframe, [role=img], progress";
    return [...document.querySelectorAll(kinds)]
      .filter((node) => node.checkVisibility() && !node.closest("[aria-hidden=true]"))
      .filter((node) => {
        const labelled = node.labels && [...node.labels].some((label) => label.textContent.trim());
        return !(labelled || node.getAttribute("aria-label") || node.title || node.textContent.trim());
      })
      .map((node) => node.outerHTML.slice(0, 120));
  },
  // Ids that stand twice, and descriptions that point nowhere.
  loose() {
    const names = ["aria-describedby", "aria-labelledby", "aria-errormessage"];
    const ids = [...document.querySelectorAll("[id]")].map((node) => node.id);
    const twice = ids.filter((id, index) => ids.indexOf(id) !== index);
    const nowhere = [...document.querySelectorAll(names.map((name) => `[${name}]`).join())]
      .flatMap((node) => names.map((name) => node.getAttribute(name)))
      .filter((id) => id && !document.getElementById(id));
    return [...twice, ...nowhere];
  },
  // Values that were never meant for people.
  raw() {
    return document.body.innerText.match(/\b(undefined|NaN|null|Infinity)\b|\[object/g) ?? [];
  },
  // Content that is wider than the window.
  wide() {
    const { scrollWidth, clientWidth } = document.documentElement;
    return scrollWidth > clientWidth ? [`${scrollWidth} px in ${clientWidth} px`] : [];
  },
  // Headings must start with the only h1 and skip no level.
  headings() {
    const levels = [...document.querySelectorAll("h1, h2, h3")]
      .filter((node) => node.checkVisibility()).map((node) => Number(node.tagName[1]));
    const once = levels[0] === 1 && levels.indexOf(1, 1) < 0;
    const even = levels.every((level, index) => index === 0 || level <= levels[index - 1] + 1);
    return once && even ? [] : [levels.join(" ")];
  },
})
