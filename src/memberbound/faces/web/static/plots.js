// What the pictures show: each function gives a drawing for `Chart.show`. Tones are names of the style sheet.
import { label } from "./charts.js";
import { atMost, emptiness, percent, percentAbout, percentDown, plain, significant } from "./numbers.js";

/** Ticks 1, 2, 5, 10, … of a logarithmic axis, written out. */
function decades(values) {
  const kept = values.filter((value) => value > 0);
  const [least, most] = [Math.min(...kept), Math.max(...kept)];
  const steps = most / least > 2000 ? [1] : most / least > 50 ? [1, 3] : [1, 2, 5];
  const found = [];
  for (let power = Math.floor(Math.log10(least)); power <= Math.ceil(Math.log10(most)); power += 1) {
    for (const step of steps) found.push(Number((step * 10 ** power).toPrecision(3)));
  }
  return {
    type: "log",
    tickvals: found,
    ticktext: found.map((value) => (value >= 1 ? value.toLocaleString("en-GB") : String(value))),
  };
}

const PERCENT = { tickformat: ".0%", hoverformat: ".4%" };

/** The best attacker's curve: true against false positives. */
export function roc(curve, points, log) {
  const keep = (fpr) => !log || fpr > 0;
  const on = curve.fpr
    .map((_, index) => index)
    .filter((index) => keep(curve.fpr[index]) && (!log || curve.tpr[index] > 0));
  const least = log ? Math.min(...on.map((index) => curve.fpr[index])) : 0;
  const marked = points.filter(([fpr, tpr]) => keep(fpr) && (!log || tpr > 0));
  // Written out: plotly's own powers of ten use style attributes, which the policy refuses.
  const powers = [];
  for (let power = Math.ceil(Math.log10(least || 1)); power <= 0; power += 1) powers.push(power);
  const axis = (title) => ({
    title: { text: title },
    ...(log
      ? {
          type: "log",
          tickvals: powers.map((power) => 10 ** power),
          ticktext: powers.map((power) => percent(10 ** power)),
        }
      : { ...PERCENT, range: [0, 1], dtick: 0.2 }),
  });
  return (ink) => ({
    data: [
      {
        x: on.map((index) => curve.fpr[index]),
        y: on.map((index) => curve.tpr[index]),
        mode: "lines",
        name: "no attack gets above this",
        line: { color: ink("certified"), width: 3 },
        // The rate rounded down and the bound up: the pair printed lies above the curve.
        text: on.map(
          (index) =>
            `accuses ${percentDown(curve.fpr[index])} of the non-members<br>finds ${atMost(curve.tpr[index])} of the members`,
        ),
        hovertemplate: "%{text}<extra></extra>",
      },
      {
        x: log ? [least, 1] : [0, 1],
        y: log ? [least, 1] : [0, 1],
        mode: "lines",
        name: "blind guessing",
        line: { color: ink("quiet"), width: 1.6, dash: "dot" },
        hoverinfo: "skip",
      },
      ...(curve.tpr_replace_one
        ? [
            {
              x: on.map((index) => curve.fpr[index]),
              y: on.map((index) => curve.tpr_replace_one[index]),
              mode: "lines",
              name: "… when “out” means another record in its place",
              line: { color: ink("certified"), width: 1.6, dash: "dash" },
              hoverinfo: "skip",
            },
          ]
        : []),
      {
        x: marked.map(([fpr]) => fpr),
        y: marked.map(([, tpr]) => tpr),
        mode: "markers",
        name: "the rates asked for",
        cliponaxis: false,
        marker: { color: ink("certified"), size: 10, symbol: "diamond", line: { color: ink("card"), width: 1.5 } },
        hoverinfo: "skip",
      },
    ],
    layout: {
      xaxis: { ...axis("non-members wrongly accused (FPR)"), ...(log ? { range: [Math.log10(least), 0] } : {}) },
      yaxis: axis("members found (TPR)"),
    },
  });
}

/** How many rows may leak how much. */
export function histogram(edges, rows, limit) {
  const middle = rows.map((_, index) => (edges[index] + edges[index + 1]) / 2);
  const width = rows.map((_, index) => edges[index + 1] - edges[index]);
  return (ink) => ({
    data: [
      {
        type: "bar",
        x: middle,
        y: rows,
        width,
        marker: {
          color: middle.map((_, index) => (edges[index] >= limit ? ink("danger") : ink("certified"))),
          line: { color: ink("card"), width: 1 },
        },
        text: rows.map(
          (found, index) =>
            `${found} rows leak at most ${significant(edges[index + 1], "upper", 4)}, and more than ${significant(edges[index], "lower", 4)} is not excluded`,
        ),
        textposition: "none",
        hovertemplate: "%{text}<extra></extra>",
      },
    ],
    layout: {
      bargap: 0,
      xaxis: { title: { text: "certified leak of a row, at most" }, range: [0, 1], dtick: 0.2 },
      yaxis: { title: { text: "rows" }, rangemode: "tozero" },
      shapes:
        limit > 0 && limit < 1
          ? [
              {
                type: "line",
                x0: limit,
                x1: limit,
                y0: 0,
                y1: 1,
                yref: "paper",
                line: { color: ink("quiet"), dash: "dot", width: 1.6 },
              },
            ]
          : [],
      annotations:
        limit > 0 && limit < 1
          ? [
              {
                x: limit,
                y: 1,
                yref: "paper",
                yanchor: "bottom",
                showarrow: false,
                text: `exposed above ${plain(limit)}`,
                font: { size: 12 },
              },
            ]
          : [],
      margin: { l: 56, r: 14, t: 28, b: 50 },
      showlegend: false,
    },
  });
}

/** Shares of the rows by their leak, before and after. */
export function leaksBeforeAfter(before, after) {
  const middle = (plot) => plot.rows.map((_, index) => (plot.edges[index] + plot.edges[index + 1]) / 2);
  const shares = (plot) => {
    const all = plot.rows.reduce((sum, rows) => sum + rows, 0) || 1;
    return plot.rows.map((rows) => rows / all);
  };
  const said = (plot) =>
    shares(plot).map(
      (part, index) =>
        `leak at most ${significant(plot.edges[index + 1], "upper", 4)}: ${percentAbout(part)} of the rows`,
    );
  return (ink) => ({
    data: [
      {
        type: "bar",
        x: middle(before),
        y: shares(before),
        name: "before",
        marker: { color: ink("danger"), opacity: 0.75, pattern: { shape: "/" } },
        text: said(before),
        textposition: "none",
        hovertemplate: "%{text}<extra>before</extra>",
      },
      {
        type: "bar",
        x: middle(after),
        y: shares(after),
        name: "after",
        marker: { color: ink("certified"), opacity: 0.85 },
        text: said(after),
        textposition: "none",
        hovertemplate: "%{text}<extra>after</extra>",
      },
    ],
    layout: {
      barmode: "overlay",
      bargap: 0,
      xaxis: { title: { text: "certified leak of a row, at most" }, range: [0, 1], dtick: 0.2 },
      yaxis: { title: { text: "share of the rows" }, ...PERCENT, rangemode: "tozero" },
    },
  });
}

/** Curves over a common axis: [{name, x, y, tone, dash, words}], with an optional mark and level. */
export function lines(
  curves,
  { x, y, logx = false, logy = false, shares = true, mark = null, level = null, markers = false, range = null },
) {
  return (ink) => ({
    data: [
      ...curves.map((curve) => ({
        x: curve.x,
        y: curve.y,
        name: curve.name,
        mode: markers ? "lines+markers" : "lines",
        line: { color: ink(curve.tone), width: 2.6, dash: curve.dash ?? "solid" },
        marker: { size: 8 },
        text: curve.x.map((at, index) => curve.words(at, curve.y[index])),
        hovertemplate: `%{text}<extra>${curve.name}</extra>`,
      })),
      ...(level
        ? [
            {
              x: [Math.min(...curves.flatMap((c) => c.x)), Math.max(...curves.flatMap((c) => c.x))],
              y: [level.y, level.y],
              mode: "lines",
              name: level.name,
              line: { color: ink("quiet"), dash: "dot", width: 1.6 },
              hoverinfo: "skip",
            },
          ]
        : []),
    ],
    layout: {
      xaxis: { title: { text: x }, ...(logx ? decades(curves.flatMap((curve) => curve.x)) : {}) },
      yaxis: {
        title: { text: y },
        ...(shares ? PERCENT : {}),
        ...(logy ? decades(curves.flatMap((curve) => curve.y)) : {}),
        ...(range ? { range } : {}),
      },
      showlegend: curves.length > 1,
      shapes:
        mark === null
          ? []
          : [
              {
                type: "line",
                x0: mark,
                x1: mark,
                y0: 0,
                y1: 1,
                yref: "paper",
                line: { color: ink("ink"), width: 1.4, dash: "dash" },
              },
            ],
    },
  });
}

/** Bars with their bound written on them: [{name, value, words, tone}]. */
export function bars(items, { y, level, range }) {
  return (ink) => ({
    data: [
      {
        type: "bar",
        x: items.map((item) => item.name),
        y: items.map((item) => item.value),
        text: items.map((item) => item.words),
        textposition: "outside",
        cliponaxis: false,
        marker: {
          color: items.map((item) => ink(item.tone)),
          pattern: { shape: items.map((item) => item.pattern ?? "") },
        },
        hoverinfo: "skip",
      },
    ],
    layout: {
      xaxis: { tickangle: 0 },
      yaxis: { title: { text: y }, ...PERCENT, range },
      showlegend: false,
      shapes: [
        {
          type: "line",
          x0: 0,
          x1: 1,
          xref: "paper",
          y0: level,
          y1: level,
          line: { color: ink("quiet"), dash: "dot", width: 2 },
        },
      ],
      margin: { l: 56, r: 14, t: 24, b: 60 },
    },
  });
}

/** Floor, estimate and ceiling of each subject on one axis: the rows of a report's sandwich. */
export function sandwich(rows) {
  const proved = (row) => (row.ceiling && !emptiness(row.ceiling.upper) ? row.ceiling.upper : null);
  const names = rows.map((row) => label(row.name ?? `${row.label}, ${row.record} record`));
  const points = (value, name, tone, symbol, write) => (ink) => {
    const there = rows
      .map((row, index) => [value(row), names[index], row])
      .filter(([x]) => x !== null && x !== undefined);
    return {
      x: there.map(([x]) => x),
      y: there.map(([, y]) => y),
      mode: "markers",
      name,
      marker: { color: ink(tone), size: 13, symbol, line: { width: 2, color: ink(tone) } },
      text: there.map(([x, , row]) => write(x, row)),
      hovertemplate: `%{text}<extra>${name}</extra>`,
    };
  };
  const traces = [
    points((row) => proved(row), "certified ceiling ≤", "certified", "triangle-left", (x) => atMost(x)),
    points((row) => (row.ceiling && proved(row) === null ? 1 : null), "nothing is proved", "warn", "x-thin", (x) => atMost(x)),
    points((row) => row.estimate?.estimate, "estimate ≈", "estimated", "circle-open", (x) => `≈ ${percentAbout(x)}`),
    points((row) => row.floor?.lower, "measured floor ≥", "measured", "triangle-right", (x, row) =>
      x > row.blind ? `≥ ${percentDown(x)}` : "blind guess",
    ),
  ];
  return (ink) => ({
    data: traces.map((trace) => trace(ink)).filter((trace) => trace.x.length > 0),
    layout: {
      xaxis: { title: { text: "right about membership" }, ...PERCENT, range: [0.45, 1.03], dtick: 0.25, tickangle: 0 },
      yaxis: {
        autorange: "reversed",
        type: "category",
        categoryorder: "array",
        categoryarray: names,
        tickfont: { size: 11 },
      },
      shapes: [
        {
          type: "line",
          x0: 0.5,
          x1: 0.5,
          y0: 0,
          y1: 1,
          yref: "paper",
          line: { color: ink("quiet"), dash: "dot", width: 1.6 },
        },
      ],
      margin: { l: 10, r: 14, t: 14, b: 50 },
    },
  });
}
