// Figures with units, and the ticks of axes: round numbers, and labels that say them exactly. Pure:
// nothing here touches the page. Called by plot.js and page.js.
"use strict";

// With three digits, as `neap report` writes them (units.rs).
function scaled(value, step, units) {
  let unit = 0;
  // What would be rounded up to a whole unit is shown in that unit.
  while (Math.abs(value) >= step - 0.5 && unit + 1 < units.length) { value /= step; unit++; }
  const size = Math.abs(value);
  const decimals = unit === 0 || size >= 99.95 ? 0 : size >= 9.995 ? 1 : 2;
  return value.toFixed(decimals) + (units[unit] ? " " + units[unit] : "");
}
const BYTES = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"], TIMES = ["ns", "µs", "ms", "s"], COUNTS = ["", "K", "M", "G", "T"];
const SECOND = 1e9, MINUTE = 60 * SECOND, HOUR = 60 * MINUTE, DAY = 24 * HOUR;
const bytes = value => scaled(value, 1024, BYTES);
const duration = value => value < 10 * MINUTE ? scaled(value, 1000, TIMES) : clock(Math.round(value / SECOND) * SECOND, SECOND);
const count = value => Number(value).toLocaleString("en");
const short = value => scaled(value, 1000, COUNTS);

// A value in its unit, with as many decimals as a multiple of `step` has.
function exact(value, step, base, units) {
  let unit = 0;
  while (Math.abs(value) >= base * (1 - 1e-12) && unit + 1 < units.length) { value /= base; step /= base; unit++; }
  const decimals = base === 1024 ? -Math.log2(step) : Math.ceil(-Math.log10(step) - 1e-9);
  return Number(value.toFixed(Math.min(Math.max(decimals, 0), 20))) + (units[unit] ? " " + units[unit] : "");
}
// A long time in days, hours, minutes and seconds.
function clock(value, step) {
  const parts = [];
  for (const [length, name] of [[DAY, "d"], [HOUR, "h"], [MINUTE, "min"]]) {
    const whole = Math.floor(value / length);
    if (whole > 0) parts.push(`${whole} ${name}`);
    value -= whole * length;
  }
  const decimals = Math.min(Math.max(Math.ceil(-Math.log10(step / SECOND) - 1e-9), 0), 9);
  const seconds = Number((value / SECOND).toFixed(decimals));
  if (seconds > 0 || !parts.length) parts.push(`${seconds} s`);
  return parts.join(" ");
}

// Round steps from short to long, and the label of a multiple of one, by what shows the values.
const decimal = most => Array.from({ length: most }, (_, power) => [1, 2, 5].map(factor => factor * 10 ** power)).flat();
const scales = new Map([
  [bytes, { steps: Array.from({ length: 64 }, (_, power) => 2 ** power), label: (value, step) => exact(value, step, 1024, BYTES) }],
  [short, { steps: decimal(18), label: (value, step) => exact(value, step, 1000, COUNTS) }],
  [duration, {
    steps: [...decimal(10), 10 * SECOND, 20 * SECOND, 30 * SECOND, ...[1, 2, 5, 10, 20, 30].map(factor => factor * MINUTE),
      ...[1, 2, 3, 6, 12].map(factor => factor * HOUR), ...decimal(5).map(factor => factor * DAY)],
    label: (value, step) => value < MINUTE * (1 - 1e-12) ? exact(value, step, 1000, TIMES) : clock(value, step),
  }],
]);
// Each power of ten as far as there are no better units, then those.
const isMain = step => step >= MINUTE ? [1, 10].some(factor => [MINUTE, HOUR, DAY].includes(step / factor)) : Number.isInteger(Math.log10(step));

// Round values between low and high, about `wanted` of them, with their labels. With a log axis
// those that lie about as far from each other, or, where there are too few, as on any other axis.
function ticks(low, high, show, { log = false, wanted = 5 } = {}) {
  const { steps, label } = scales.get(show);
  if (log) {
    const all = steps.filter(step => step >= low && step <= high);
    const found = all.length > 9 ? all.filter(isMain) : all;
    if (found.length > 1) return found.map(value => ({ value, label: label(value, value) }));
  }
  const rough = Math.max((high - low) / wanted, 1);
  // The shortest step that is long enough; a shorter one where there would be but one label.
  let at = steps.findIndex(step => step >= rough * 0.999);
  if (at < 0) at = steps.length - 1;
  const first = step => Math.ceil(low / step - 1e-6), last = step => Math.floor(high / step + 1e-6);
  while (at > 0 && last(steps[at]) - first(steps[at]) < 1) at--;
  const step = steps[at], found = [];
  for (let index = first(step); index <= last(step); index++) found.push({ value: index * step, label: index === 0 ? "0" : label(index * step, step) });
  return found;
}
// The same for an axis that is so wide: as many as have room beside each other.
function ticksAcross(low, high, show, width) {
  let wanted = Math.min(10, Math.max(2, Math.floor(width / 110)));
  const room = found => width / Math.max(1, found.length) - 8;
  const isWide = found => found.length > 2 && found.some(tick => tick.label.length * 6.4 > room(found));
  let found = ticks(low, high, show, { wanted });
  while (wanted > 2 && isWide(found)) found = ticks(low, high, show, { wanted: --wanted });
  return found;
}
