// Requests to the gateway. Every change carries the value that /page/me told; an expired cookie is told once, to `onLeft`.
import { currentLanguage } from "./texts.js";

let csrf = "";
let left = () => {};

export class CallError extends Error {
  constructor(message, hint, status, facts = {}) {
    super(message);
    this.hint = hint || "";
    this.status = status;
    this.facts = facts;
  }
}

export function onLeft(fn) { left = fn; }

async function request(path, options = {}) {
  let answer;
  try {
    answer = await fetch(path, { cache: "no-store", credentials: "same-origin", redirect: "error", ...options });
  } catch {
    throw new CallError("", "", 0);
  }
  let body = null;
  try { body = await answer.json(); } catch { if (answer.ok) throw new CallError("", "", 0); }
  if (answer.ok) return body;
  const error = body?.error;
  const known = error && typeof error === "object";
  const made = new CallError(known ? error.message : error || answer.statusText, known ? error.hint : body?.mend, answer.status, known ? error : body || {});
  if (answer.status === 401) { csrf = ""; left(made); }
  throw made;
}

const post = (path, body, headers = {}) => request(path, { method: "POST", body, headers: { "X-Homebody-Csrf": csrf, "X-Homebody-Language": currentLanguage(), ...headers } });

export async function me() {
  const facts = await request("/page/me");
  csrf = facts.csrf;
  left(null);
  return facts;
}

export async function enter(code) {
  return post("/enter", JSON.stringify({ code }), { "Content-Type": "application/json" });
}

export async function call(name, args = {}) {
  const go = () => post(`/page/call/${name}`, JSON.stringify(args), { "Content-Type": "application/json" });
  try {
    if (!csrf) await me();
    return (await go()).result;
  } catch (error) {
    // The browser was let in anew in another tab, so that the value is another one.
    if (error.facts?.reason !== "no-csrf") throw error;
    await me();
    return (await go()).result;
  }
}

const PIECE = 512 * 1024;

// Sends a file in pieces, so that a slow connection finishes each in time; returns {id, name, type, size}.
export async function upload(file, progress = () => {}) {
  const query = new URLSearchParams({ name: file.name || "recording", type: file.type || "" });
  if (!csrf) await me();
  let stored = (await post(`/page/upload?${query}`, file.slice(0, PIECE))).result;
  for (let offset = PIECE; offset < file.size; offset += PIECE) {
    progress(offset / file.size);
    const more = new URLSearchParams({ id: stored.id, offset: String(offset) });
    stored = (await post(`/page/upload?${more}`, file.slice(offset, offset + PIECE))).result;
  }
  progress(1);
  return stored;
}
