// Requests to the gateway. Every change carries the value that /page/me told; an expired cookie is told once, to `onLeft`.
import { currentLanguage } from "./texts.js";

let csrf = "";
let left = () => {};
let retry;
let line = new AbortController();

// Ends all requests that are on their way, over connections that died without a word: each fails as after any other loss.
export function giveUp() {
  line.abort();
  line = new AbortController();
}

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
    answer = await fetch(path, { cache: "no-store", credentials: "same-origin", redirect: "error", signal: line.signal, ...options });
  } catch {
    // It is asked again soon, as for a browser that comes back; several that failed together once.
    clearTimeout(retry);
    retry = setTimeout(() => dispatchEvent(new Event("online")), 3000);
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

// Sends a file in pieces, so that a slow connection finishes each in time; returns {id, name, type, size}. One that is too large is
// refused at the beginning, before any piece.
export async function upload(file, progress) {
  const { name, type, size } = file;
  const send = async (query, piece) => (await post(`/page/upload?${new URLSearchParams(query)}`, piece)).result;
  if (!csrf) await me();
  let stored = await send({ name, type, size });
  for (let offset = 0; offset < size; offset += PIECE) {
    progress(offset / size);
    stored = await send({ id: stored.id, offset }, file.slice(offset, offset + PIECE));
  }
  return stored;
}
