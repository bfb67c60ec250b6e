// Numbers as text, rounded to the safe side, digit for digit as quantities.py does it (a test compares
// them). A double stands for the shortest decimal that reads back as it, and that is rounded exactly.

/** The double as an exact decimal: [digits, power] for digits·10^power. */
function decimal(value) {
  const [mantissa, power] = value.toExponential().split("e");
  const [whole, rest = ""] = mantissa.split(".");
  return [BigInt(whole + rest), Number(power) - rest.length];
}

/** Round digits·10^power to an integer of units 10^-places: up, down or to the nearest, then even. */
function scaled([digits, power], places, side) {
  const shift = power + places;
  if (shift >= 0) return digits * 10n ** BigInt(shift);
  const bottom = 10n ** BigInt(-shift);
  let floor = digits / bottom;
  if (floor * bottom > digits) floor -= 1n;
  const left = digits - floor * bottom;
  if (left === 0n || side === "lower") return floor;
  if (side === "upper") return floor + 1n;
  const twice = 2n * left;
  return twice > bottom || (twice === bottom && floor % 2n !== 0n) ? floor + 1n : floor;
}

/** Write an integer that stands for units of 10^-places. */
function written(units, places) {
  if (places <= 0) return (units * 10n ** BigInt(-places)).toString();
  const sign = units < 0n ? "-" : "";
  const text = (units < 0n ? -units : units).toString().padStart(places + 1, "0");
  return `${sign}${text.slice(0, -places)}.${text.slice(-places)}`;
}

const shortened = (text) => (text.includes(".") ? text.replace(/0+$/, "").replace(/\.$/, "") : text);

/** What stands where there is no number: null would be taken apart as a zero, the best bound of all. */
const NONE = "no bound";

/** A fixed number of decimals. */
export const decimals = (value, side, places = 6) =>
  Number.isFinite(value) ? written(scaled(decimal(value), places, side), places) : NONE;
/** Six decimals, rounded up: for upper bounds. */
export const sixUp = (value) => decimals(value, "upper");
/** Six decimals, rounded down: for lower bounds. */
export const sixDown = (value) => decimals(value, "lower");

/** A share in percent, with two decimals. */
function percentOf(value, side) {
  if (!Number.isFinite(value)) return NONE;
  const [digits, power] = decimal(value);
  return `${shortened(written(scaled([digits, power + 2], 2, side), 2))} %`;
}
/** Percent, rounded up. */
export const percentUp = (value) => percentOf(value, "upper");

/** A given share, not a bound: exactly. */
export function percent(value) {
  const [digits, power] = decimal(value);
  return `${shortened(written(digits, -power - 2))} %`;
}

/** A few significant digits, rounded to a side. */
export function significant(value, side, digits = 6) {
  if (!Number.isFinite(value)) return NONE;
  if (value === 0) return "0";
  const top = Number(value.toExponential().split("e")[1]);
  return exponential(scaled(decimal(value), digits - 1 - top, side), digits - 1 - top);
}

/** A setting as it was given: the shortest text that gives the same double. */
export function plain(value) {
  if (typeof value !== "number" || !Number.isFinite(value)) return String(value);
  const [digits, power] = decimal(value);
  return digits === 0n ? "0" : exponential(digits, -power);
}

/** Write units of 10^-places, with a power of ten where there would be many zeros. */
function exponential(units, places) {
  const text = (units < 0n ? -units : units).toString();
  const top = text.length - 1 - places;
  if (units === 0n || (top >= -4 && top <= 12)) return shortened(written(units, places));
  return `${units < 0n ? "-" : ""}${shortened(`${text[0]}.${text.slice(1)}0`)}e${top}`;
}

/** What a certificate says that excludes nothing. */
export const NOTHING = "no guarantee";
/** What stands in place of a ceiling that excludes (nearly) nothing; null where it says something. */
export function emptiness(value, limit = 1) {
  if (value >= limit) return NOTHING;
  if (value <= limit * (1 - 1e-4)) return null;
  return limit === 1 ? "no useful bound (< 100 %)" : `no useful bound (< ${plain(limit)})`;
}
/** A certified ceiling as text. */
export const atMost = (value, write = percentUp, limit = 1) => emptiness(value, limit) ?? `≤ ${write(value)}`;
/** The same within a sentence. */
export const atMostInWords = (value, write = percentUp) => emptiness(value) ?? `at most ${write(value)}`;

/** A count, with separated thousands. */
export const count = (value) => value.toLocaleString("en-GB");

/** A size in bytes for people. */
export function bytes(value) {
  if (value < 1000) return `${value} bytes`;
  if (value < 1e6) return `${(value / 1e3).toFixed(1)} kB`;
  return value < 1e9 ? `${(value / 1e6).toFixed(1)} MB` : `${(value / 1e9).toFixed(1)} GB`;
}
