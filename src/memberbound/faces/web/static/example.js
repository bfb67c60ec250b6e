// Made-up people for a first try: the same file every time, nobody's data.

function generator(seed) {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296;
  };
}

/** A CSV file of 4000 made-up people. */
export function madeUpPeople() {
  const next = generator(7);
  const pick = (options) => options[Math.floor(next() ** 1.5 * options.length)];
  const lines = ["sex,age,region,education,hours,income"];
  for (let row = 0; row < 4000; row += 1) {
    const age = 18 + Math.floor((next() + next() + next()) * 22);
    const education = pick(["school", "college", "bachelor", "master", "doctor"]);
    const hours = 20 + Math.floor((next() + next()) * 20);
    const better =
      { school: 0, college: 1, bachelor: 2, master: 3, doctor: 4 }[education] + age / 30 + hours / 25 + 2 * next();
    lines.push(
      [
        next() < 0.51 ? "f" : "m",
        age,
        pick(["north", "east", "south", "west"]),
        education,
        hours,
        better > 5 ? "high" : "low",
      ].join(","),
    );
  }
  return new File([`${lines.join("\n")}\n`], "made-up-people.csv", { type: "text/csv" });
}
