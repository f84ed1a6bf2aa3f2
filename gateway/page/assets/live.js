// One stream of server-sent events for this tab. It catches up after a loss; where it cannot, pages are told to ask again ("reload").
// A tab in the background keeps none, except the one that holds the lock: it shows notifications.
import { useEffect, useState } from "./vendor/preact-htm.js";
import { me } from "./api.js";

const listeners = new Set();
let source = null;
let last = null;
let keeper = false;
let state = "connecting";
let again = 0;
let begun = false;

function set(next) {
  if (state === next) return;
  state = next;
  tell({ kind: "connection", data: next });
}

function tell(event) {
  for (const one of [...listeners]) {
    if (one.kind === "*" || event.kind === one.kind || event.kind === "reload" || (one.kind.endsWith(".*") && event.kind.startsWith(one.kind.slice(0, -1)))) one.fn(event);
  }
}

export function open() {
  clearTimeout(again);
  if (source || (document.hidden && !keeper)) return;
  source = new EventSource(`/page/events${last ? `?after=${encodeURIComponent(last)}` : ""}`);
  source.onopen = () => {
    set("on");
    if (begun && !last) tell({ kind: "reload" });
    begun = true;
  };
  source.onmessage = (message) => {
    last = message.lastEventId || last;
    let event;
    try { event = JSON.parse(message.data); } catch { return; }
    tell({ id: last, ...event });
  };
  source.onerror = () => {
    close();
    set("off");
    // A cookie that holds no more is told by this request; anything else is tried again.
    me().then(() => { again = setTimeout(open, 1000); }, (error) => { if (error.status !== 401) again = setTimeout(open, 2000); });
  };
}

function close() {
  source?.close();
  source = null;
}

export function beginLive() {
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden) open();
    else if (!keeper) close();
  });
  addEventListener("online", open);
  addEventListener("pagehide", close);
  addEventListener("pageshow", open);
  navigator.locks?.request("homebody-live", () => { keeper = true; open(); return new Promise(() => {}); }).catch(() => {});
  open();
}

// Calls `fn({id, kind, data})` for events of a kind, of `topic.*`, or of all ("*"), and for "reload"; returns what ends that.
export function onLive(kind, fn) {
  const one = { kind, fn };
  listeners.add(one);
  return () => listeners.delete(one);
}

export function useLive(kind, fn) {
  useEffect(() => onLive(kind, fn), [kind, fn]);
}

export function useConnection() {
  const [now, change] = useState(state);
  useEffect(() => onLive("connection", (event) => event.kind === "connection" && change(event.data)), []);
  return now;
}
