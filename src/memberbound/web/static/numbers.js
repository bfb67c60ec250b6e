// Numbers as text, rounded to the safe side. A double is taken apart exactly, as Python's Decimal
// does, so that the page never prints a bound that is a digit too good.

/** The double as an exact fraction of integers: [numerator, denominator]. */
function fraction(value) {
  const view = new DataView(new ArrayBuffer(8));
  view.setFloat64(0, value);
  const bits = view.getBigUint64(0);
  const power = Number((bits >> 52n) & 0x7ffn);
  const rest = bits & ((1n << 52n) - 1n);
  const mantissa = power === 0 ? rest : rest | (1n << 52n);
  const shift = Math.max(power, 1) - 1075;
  const sign = bits >> 63n ? -1n : 1n;
  return shift >= 0 ? [sign * (mantissa << BigInt(shift)), 1n] : [sign * mantissa, 1n << BigInt(-shift)];
}

/** ⌈value·10^digits⌉ or ⌊value·10^digits⌋, exactly; digits may be negative. */
function scaled(value, digits, upwards) {
  let [top, bottom] = fraction(value);
  if (digits >= 0) top *= 10n ** BigInt(digits);
  else bottom *= 10n ** BigInt(-digits);
  const whole = top / bottom;
  const left = top - whole * bottom;
  if (left === 0n) return whole;
  if (upwards) return left > 0n ? whole + 1n : whole;
  return left < 0n ? whole - 1n : whole;
}

/** Write an integer that stands for units of 10^-digits. */
function written(units, digits) {
  if (digits <= 0) return (units * 10n ** BigInt(-digits)).toString();
  const sign = units < 0n ? "-" : "";
  const text = (units < 0n ? -units : units).toString().padStart(digits + 1, "0");
  return `${sign}${text.slice(0, -digits)}.${text.slice(-digits)}`;
}

const shortened = (text) => (text.includes(".") ? text.replace(/0+$/, "").replace(/\.$/, "") : text);

/** What stands where there is no number: null would be taken apart as a zero, the best bound of all. */
const NONE = "no bound";

/** A fixed number of decimals, rounded up. */
export const decimalsUp = (value, digits) =>
  Number.isFinite(value) ? written(scaled(value, digits, true), digits) : NONE;
/** A fixed number of decimals, rounded down. */
export const decimalsDown = (value, digits) =>
  Number.isFinite(value) ? written(scaled(value, digits, false), digits) : NONE;
/** Six decimals, rounded up: for upper bounds. */
export const sixUp = (value) => decimalsUp(value, 6);
/** Six decimals, rounded down: for lower bounds. */
export const sixDown = (value) => decimalsDown(value, 6);

/** Percent with two decimals, rounded up; more decimals where two would say 100 %. */
export function percentUp(value) {
  if (!Number.isFinite(value)) return NONE;
  for (const digits of [2, 4, 6, 9, 12, 15]) {
    const units = scaled(value, digits + 2, true);
    if (units < 100n * 10n ** BigInt(digits) || value === 1) return `${shortened(written(units, digits))} %`;
  }
  return "100 %";
}

/** Percent with two decimals, rounded down. */
export const percentDown = (value) =>
  Number.isFinite(value) ? `${shortened(written(scaled(value, 4, false), 2))} %` : NONE;

/** A given share, not a bound: as short as it is exact. */
export const percent = (value) => `${Number((value * 100).toPrecision(10))} %`;

/** A few significant digits, rounded up (`upwards`) or down. */
export function significant(value, digits = 3, upwards = true) {
  if (!Number.isFinite(value)) return NONE;
  if (value === 0) return "0";
  const power = Number(value.toExponential().split("e")[1]);
  let units = scaled(value, digits - 1 - power, upwards);
  let top = power;
  // 9.999 rounded up has one more digit before the point.
  if (units >= 10n ** BigInt(digits)) {
    units /= 10n;
    top += 1;
  }
  if (top < -4) {
    const text = units.toString();
    return `${shortened(`${text[0]}.${text.slice(1)}`)}e${top}`;
  }
  return shortened(written(units, digits - 1 - top));
}

/** An estimate: four significant digits, no side. */
export const about = (value) => `${Number(value.toPrecision(4))}`;

/** A count, with separated thousands. */
export const count = (value) => value.toLocaleString("en-GB");

/** A setting as it was given: the shortest text that gives the same double. */
export const plain = (value) => String(value);

/** A size in bytes for people. */
export function bytes(value) {
  if (value < 1000) return `${value} bytes`;
  if (value < 1e6) return `${(value / 1e3).toFixed(1)} kB`;
  return value < 1e9 ? `${(value / 1e6).toFixed(1)} MB` : `${(value / 1e9).toFixed(1)} GB`;
}
