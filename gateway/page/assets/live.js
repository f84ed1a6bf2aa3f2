// The stream of server-sent events: one for all tabs of a browser, which opens few connections to an address. The tab that was looked at last
// holds a lock and reads it, and hands each event to the others; it shows notifications while hidden. It catches up after a loss; where it
// cannot, pages are told to ask again ("reload").
import { useEffect, useState } from "./vendor/preact-htm.js";
import { giveUp, me } from "./api.js";

const NAME = "homebody-live";
const CLAIMED = "claimed";
const reader = Math.random().toString(36);
const listeners = new Set();
let others = navigator.locks && window.BroadcastChannel ? new BroadcastChannel(NAME) : null;
let source = null;
let last = null;
let keeper = false;
let waiting = null;
let stale = false;
let state = "connecting";
let again = 0;
let begun = false;
let outdated = false;
let limit = 0;
let since = 0;
let silent = false;

function set(next) {
  if (state === next) return;
  state = next;
  share({ kind: "connection", data: next });
}

function share(event) {
  others?.postMessage(event);
  tell(event);
}

// Tells the listeners in this tab.
export function tell(event) {
  for (const one of [...listeners]) {
    if (one.kind === "*" || event.kind === one.kind || event.kind === "reload" || (one.kind.endsWith(".*") && event.kind.startsWith(one.kind.slice(0, -1)))) one.fn(event);
  }
}

// What the tab that reads the stream hands on. A hidden tab asks for everything when it is seen again.
function heard({ data: event }) {
  if (event.kind === "looked") { if (!document.hidden) others.postMessage({ kind: "looking" }); return; }
  if (event.kind === "looking") { looking?.(true); return; }
  if (event.kind === "entered") { outdated = true; renewed(refresh); return; }
  if (keeper) return;
  last = event.id || last;
  if (event.kind === "connection") {
    state = event.data;
    if (state === "off") { outdated = true; renewed(() => {}); }
  } else if (document.hidden) { stale = true; return; }
  if (outdated && state === "on") { renewed(() => tell({ kind: "reload" })); tell({ kind: "connection", data: state }); return; }
  tell(event);
}

// After a loss a cookie may be another one, with another value against forged requests: that is asked for before anything else is.
function renewed(then) {
  if (!outdated) { then(); return; }
  const answer = me();
  since ||= Date.now();
  answer.finally(alive).then(() => { outdated = false; then(); }, (error) => { if (error.status !== 401 && (keeper || !others)) again = setTimeout(read, 2000); });
}

// Whether any window of this browser shows the page to somebody. Questions that come together wait for one answer.
let looking = null;
let asked = null;
export async function looked() {
  if (!document.hidden) return true;
  if (!others) return false;
  asked ||= new Promise((tell_) => { looking = tell_; others.postMessage({ kind: "looked" }); setTimeout(tell_, 500, false); }).finally(() => { asked = null; });
  return (await asked) || !document.hidden;
}

// Other tabs take the new cookie of this browser at once, with its value against forged requests.
export const entered = () => others?.postMessage({ kind: "entered" });

function read() {
  clearTimeout(again);
  if (source || (document.hidden && !keeper)) return;
  renewed(listen);
}

function listen() {
  if (source) return;
  source = new EventSource(`/page/events?${new URLSearchParams({ reader, after: last })}`);
  alive();
  source.onopen = () => {
    alive();
    set("on");
    if (!begun) others?.postMessage({ kind: "reload" });
    begun = true;
    if (silent) share({ kind: "reload" });
    silent = false;
  };
  source.addEventListener("beat", alive);
  source.onmessage = (message) => {
    alive();
    last = message.lastEventId || last;
    let event;
    try { event = JSON.parse(message.data); } catch { return; }
    share({ id: last, ...event });
  };
  source.onerror = broken;
}

function broken() {
  close();
  set("off");
  outdated = true;
  // A cookie that holds no more is told by this request; anything else is tried again.
  renewed(() => { again = setTimeout(read, 1000); });
}

// The stream, or the answer before it, shows that it lives, or is over.
const alive = () => { since = source ? Date.now() : 0; };

// A connection can die without a word. Times are compared, because timers stop while a device sleeps.
function watch() {
  setTimeout(watch, limit / 8);
  if (!since || Math.abs(Date.now() - since) < (source ? limit : limit / 4)) return;
  since = 0;
  giveUp();
  if (!source) return;
  silent = true;
  broken();
}

function close() {
  clearTimeout(again);
  source?.close();
  source = null;
  since = 0;
}

function hold() {
  waiting = null;
  keeper = true;
  read();
  return new Promise(() => {});
}

function lost(why) {
  if (why === CLAIMED) return;
  keeper = false;
  waiting = null;
  // A browser that keeps nothing has no locks.
  if (why.name !== "AbortError") { others = null; read(); return; }
  close();
  wait();
}

function wait() {
  if (waiting || keeper) return;
  begun = true;
  waiting = new AbortController();
  navigator.locks.request(NAME, { signal: waiting.signal }, hold).catch(lost);
}

function open() {
  if (!others || keeper) { read(); return; }
  if (document.hidden) { wait(); return; }
  waiting?.abort(CLAIMED);
  navigator.locks.request(NAME, { steal: true }, hold).catch(lost);
}

// Has everything asked for again, for a browser that was let in anew.
export function refresh() {
  tell({ kind: "reload" });
  open();
}

// `event` is the latest one when the page was opened: what comes after it is news. Where nothing comes, there is a sign of life every
// `beat` seconds.
export function beginLive(event, beat = 15) {
  last = event;
  limit = beat * 8000 / 3;
  watch();
  others?.addEventListener("message", heard);
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) { if (!others) close(); return; }
    if (stale) tell({ kind: "reload" });
    stale = false;
    open();
  });
  addEventListener("online", refresh);
  addEventListener("pagehide", close);
  addEventListener("pageshow", open);
  open();
}

// Calls `fn({id, kind, data})` for events of a kind, of `topic.*`, or of all ("*"), and for "reload"; returns what ends that.
export function onLive(kind, fn) {
  const one = { kind, fn };
  listeners.add(one);
  return () => listeners.delete(one);
}

export function useConnection() {
  const [now, change] = useState(state);
  useEffect(() => onLive("connection", (event) => event.kind === "connection" && change(event.data)), []);
  return now;
}
