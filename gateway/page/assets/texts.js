// All texts of the page in one language, by their keys, and numbers and dates as the language writes them.
const LANGUAGES = { en: "English", de: "Deutsch" };
let table = {};
let language = "en";
let region = "en";

function stored() {
  try { return localStorage.getItem("homebody.language"); } catch { return null; }
}

export async function loadTexts() {
  const wanted = stored() || navigator.languages?.map((one) => one.slice(0, 2)).find((one) => one in LANGUAGES) || "en";
  language = wanted in LANGUAGES ? wanted : "en";
  region = navigator.languages?.find((one) => one.slice(0, 2) === language) || language;
  document.documentElement.lang = language;
  const answer = await fetch(new URL(`texts-${language}.json`, import.meta.url));
  table = await answer.json();
}

export function languages() { return LANGUAGES; }
export function currentLanguage() { return language; }
export function currentRegion() { return region; }

export function chooseLanguage(wanted) {
  try { localStorage.setItem("homebody.language", wanted); } catch {
    // It holds until the page is reloaded.
  }
  location.reload();
}

// `{name}` in a text is replaced by a value, numbers as the language writes them. `{n|one|other}` chooses by number.
export function t(key, values = {}) {
  const text = table[key] ?? key;
  return text.replace(/\{(\w+)(?:\|([^|}]*)\|([^}]*))?\}/g, (whole, name, one, other) => {
    if (!(name in values)) return whole;
    const value = values[name];
    if (one !== undefined) return new Intl.PluralRules(language).select(Number(value)) === "one" ? one : other;
    return typeof value === "number" ? number(value) : String(value);
  });
}

// Making one of these takes longer than drawing a message, so each is made once.
const made = new Map();
function format(kind, options) {
  const name = `${kind}${JSON.stringify(options)}`;
  if (!made.has(name)) made.set(name, new Intl[kind](region, options));
  return made.get(name);
}

export const number = (value, options = {}) => format("NumberFormat", options).format(value);
export const money = (usd) => number(usd, { style: "currency", currency: "USD", minimumFractionDigits: 2, maximumFractionDigits: Math.abs(usd) < 1 && usd !== 0 ? 4 : 2 });
export const bytes = (size) => {
  const power = size > 0 ? Math.min(3, Math.floor(Math.log10(size) / 3)) : 0;
  return number(size / 1000 ** power, { maximumFractionDigits: power ? 1 : 0, style: "unit", unit: ["byte", "kilobyte", "megabyte", "gigabyte"][power], unitDisplay: power ? "short" : "long" });
};
export const day = (at) => format("DateTimeFormat", { weekday: "long", year: "numeric", month: "long", day: "numeric" }).format(new Date(at));
export const time = (at) => format("DateTimeFormat", { hour: "2-digit", minute: "2-digit" }).format(new Date(at));
export const moment = (at) => format("DateTimeFormat", { dateStyle: "medium", timeStyle: "short" }).format(new Date(at));

export function ago(at) {
  const seconds = (new Date(at) - Date.now()) / 1000;
  const steps = [["day", 86400], ["hour", 3600], ["minute", 60]];
  const [unit, size] = steps.find(([, one]) => Math.abs(seconds) >= one) || ["second", 1];
  if (unit === "second") return t("shell.now");
  return format("RelativeTimeFormat", { numeric: "auto" }).format(Math.round(seconds / size), unit);
}
