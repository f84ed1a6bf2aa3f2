// Sessions: all conversations, a search through them, one to read, undo and export.
import { Badge, Button, Dialog, Empty, ErrorNotice, Field, html, Loading, Markdown, Notice, Page, Table, useCall, useEffect, useRef, useState, VirtualList, When } from "../ui.js";
import { call } from "../api.js";
import { bytes, moment, number, t } from "../texts.js";

const PAGE = 60;
const there = (id, at) => `#/sessions/${encodeURIComponent(id)}${at === undefined ? "" : `?at=${at}`}`;

export default function Sessions({ route, role }) {
  const [id] = route.parts;
  return id ? html`<${Reader} key=${id + route.query.at} id=${id} at=${route.query.at} role=${role} />` : html`<${List} query=${route.query.q || ""} role=${role} />`;
}

function List({ query, role }) {
  const [everything, all] = useState(false);
  const [typed, type] = useState(query);
  const { value, error, reload } = useCall("sessions.list", { everything }, { live: "sessions" });
  useEffect(() => type(query), [query]);
  const search = (event) => { event.preventDefault(); location.hash = typed.trim() ? `#/sessions?q=${encodeURIComponent(typed.trim())}` : "#/sessions"; };
  return html`<${Page} title=${t("nav.sessions")}>
    <form role="search" class="row grow" onSubmit=${search}><${Field} label=${t("sessions.search")} hint=${t("sessions.searchHint")} type="search" value=${typed} onInput=${type} /><${Button} type="submit" kind="main">${t("chat.search")}<//></form>
    ${query ? html`<${Results} key=${query} query=${query} />` : html`
    <${Field} type="checkbox" label=${t("sessions.everything")} value=${everything} onInput=${all} />
    <${ErrorNotice} error=${error} retry=${reload} />
    ${!value ? !error && html`<${Loading} />` : html`<${Table} caption=${t("nav.sessions")} rows=${value.sessions} empty=${t("sessions.none")} rowKey=${(one) => one.sessionId} columns=${[
      { key: "about", title: t("context.session"), cell: (one) => html`<a href=${there(one.sessionId)}>${one.about || one.sessionKey || one.sessionId}</a> ${one.left && html`<${Badge}>${t("schedule.ended")}<//>`}<div class="soft mono">${one.sessionKey}</div><div class="row">${!one.left && html`<a href=${`#/context/now?${new URLSearchParams({ agent: one.agent, session: one.sessionKey })}`}>${t("nav.context")}</a>`}${role === "owner" && one.undoUntil && html`<${Undo} row=${one} done=${reload} />`}</div>` },
      { key: "at", title: t("sessions.last"), cell: (one) => html`<${When} at=${one.lastInteractionAt || one.writtenAt} />` },
      { key: "turns", title: t("sessions.turns"), number: true, cell: (one) => (one.turns === undefined ? "" : number(one.turns)) },
      { key: "bytes", title: t("memory.size"), number: true, cell: (one) => bytes(one.bytes) },
    ]} />`}`}<//>`;
}

function Undo({ row, done }) {
  const [asked, ask] = useState(false);
  const [failed, fail] = useState(null);
  const undo = () => call("sessions.undo", { key: row.sessionKey }).then(() => { ask(false); done(); }, fail);
  return html`<${Button} onClick=${() => { fail(null); ask(true); }} label=${t("sessions.undoOne", { name: row.sessionKey })}>${t("sessions.undo")}<//>
    ${asked && html`<${Dialog} title=${t("sessions.undoSure")} onClose=${() => ask(false)} actions=${html`<${Button} onClick=${() => ask(false)}>${t("shell.cancel")}<//><${Button} kind="main" onClick=${undo}>${t("sessions.undo")}<//>`}><p>${t("sessions.undoAbout", { until: moment(row.undoUntil) })}</p><${ErrorNotice} error=${failed} /><//>`}`;
}

function Results({ query }) {
  const [state, change] = useState({ results: [], unreadable: [], searched: 0, busy: true });
  const [tools, withTools] = useState(false);
  const mine = useRef(0);
  const look = async (before, after) => {
    const number = ++mine.current;
    change({ ...before, busy: true });
    try {
      const found = await call("sessions.search", { query, after, tools });
      if (number === mine.current) change({ ...found, results: [...before.results, ...found.results], unreadable: [...before.unreadable, ...found.unreadable], searched: before.searched + found.searched });
    } catch (error) { if (number === mine.current) change({ ...before, error }); }
  };
  useEffect(() => { look({ results: [], unreadable: [], searched: 0 }, ""); return () => { mine.current += 1; }; }, [query, tools]);
  return html`<${Field} type="checkbox" label=${t("sessions.tools")} value=${tools} onInput=${withTools} />
    <p role="status">${state.busy ? t("sessions.searching") : t("sessions.found", { n: state.results.length, all: state.searched })} <a href="#/sessions">${t("sessions.all")}</a></p>
    <${ErrorNotice} error=${state.error} />${state.unreadable.map((text) => html`<${Notice} key=${text} kind="warn">${text}<//>`)}
    ${state.results.map((one) => html`<section class="card gap" key=${one.sessionId}><h2><a href=${there(one.sessionId, one.hits[0].number)}>${one.about || one.sessionKey || one.sessionId}</a></h2>
      <p class="soft"><span class="mono">${one.sessionKey}</span> · ${t("sessions.matches", { n: one.count })} ${one.left && html`<${Badge}>${t("schedule.ended")}<//>`}</p>
      <ul>${one.hits.map((hit) => html`<li key=${hit.number}><a href=${there(one.sessionId, hit.number)}><${When} at=${hit.at} /></a> <span class="soft">${t(`sessions.who.${hit.role}`)}</span> <span dir="auto">${hit.excerpt}</span></li>`)}</ul></section>`)}
    ${state.more && !state.busy && html`<${Button} onClick=${() => look(state, state.more)}>${t("sessions.further")}<//>`}`;
}

function Reader({ id, at, role }) {
  const first = useCall("sessions.read", at === undefined ? { session: id, limit: PAGE, trees: true } : { session: id, offset: Math.floor(at / PAGE) * PAGE, limit: PAGE, trees: true }, { live: ["sessions", "chat.said"] });
  const pages = useRef(new Map());
  const asked = useRef(new Set());
  const wanted = useRef(new Set());
  const [, drawn] = useState(0);
  const [failed, fail] = useState(null);
  const [busy, work] = useState("");
  const items = useRef([]);
  const value = first.value;
  if (value) {
    for (const one of value.entries) pages.current.set(one.n, one);
    if (items.current.length !== value.total) items.current = Array.from({ length: value.total }, (_, n) => n);
  }
  // What is near is asked for once it was drawn as missing; of a quick scroll only where it ends.
  useEffect(() => {
    const timer = setTimeout(() => {
      for (const page of [...wanted.current].slice(-3)) {
        if (asked.current.has(page)) continue;
        asked.current.add(page);
        call("sessions.read", { session: id, offset: page * PAGE, limit: PAGE, trees: true }).then((found) => { for (const one of found.entries) pages.current.set(one.n, one); drawn((n) => n + 1); }, (error) => { asked.current.delete(page); fail(error); });
      }
      wanted.current.clear();
    }, 120);
    return () => clearTimeout(timer);
  });
  const save = async (form) => {
    work(form);
    fail(null);
    try {
      const parts = [];
      for (let next = 0, name, day = ""; next !== null;) {
        const piece = await call("sessions.export", { session: id, form, offset: next, day });
        parts.push(piece.text);
        ({ next, name, day } = piece);
        if (next === null) {
          const link = document.createElement("a");
          link.href = URL.createObjectURL(new Blob(parts, { type: form === "md" ? "text/markdown" : "application/x-ndjson" }));
          link.download = name;
          link.click();
          setTimeout(() => URL.revokeObjectURL(link.href), 60000);
        }
      }
    } catch (error) { fail(error); }
    work("");
  };
  const actions = html`<a class="button" href="#/sessions">${t("sessions.all")}</a><${Button} busy=${busy === "md"} onClick=${() => save("md")}>${t("sessions.markdown")}<//><${Button} busy=${busy === "jsonl"} onClick=${() => save("jsonl")}>${t("sessions.jsonl")}<//>`;
  return html`<${Page} title=${value?.about || t("nav.sessions")} actions=${actions}><${ErrorNotice} error=${first.error || failed} retry=${first.reload} />
    ${!value ? !first.error && html`<${Loading} />` : html`<p class="soft"><span class="mono">${value.sessionKey}</span> · ${t("sessions.entries", { n: value.total })} ${value.left && html`<${Badge}>${t("schedule.ended")}<//>`}</p>
    ${value.total === 0 ? html`<${Empty} />` : html`<div class="reader"><${VirtualList} label=${t("sessions.conversation")} items=${items.current} keyOf=${String} end=${at === undefined} anchor=${at === undefined ? undefined : String(at)} item=${(n) => {
      const entry = pages.current.get(n);
      if (!entry) { wanted.current.delete(Math.floor(n / PAGE)); wanted.current.add(Math.floor(n / PAGE)); return html`<p class="said soft">…</p>`; }
      return html`<${Entry} entry=${entry} chosen=${String(n) === at} />`;
    }} /></div>`}`}<//>`;
}

const EVENTS = ["opened", "compaction", "flush", "pruning", "results_cleared", "pinned", "unpinned", "unanswered", "unreadable"];

function Entry({ entry, chosen }) {
  const said = ["user", "assistant", "tool", "runtime"].includes(entry.kind);
  const who = EVENTS.includes(entry.kind) ? t(`sessions.event.${entry.kind}`) : entry.kind === "tool" ? entry.name : entry.sender || t(`sessions.who.${entry.kind}`);
  const cut = entry.cut && html`<p class="hint">${t("sessions.cut", { n: entry.cut })}</p>`;
  const text = entry.tree ? html`<${Markdown} tree=${entry.tree} />` : entry.text && html`<div class="text" dir="auto">${entry.text}</div>`;
  return html`<article class=${`said ${entry.kind}${chosen ? " chosen" : ""}`} aria-current=${chosen ? "true" : undefined}><p class="soft"><strong>${who}</strong> ${entry.at && moment(entry.at)} ${entry.model || ""}${" "}
    ${entry.isError && html`<${Badge} kind="bad">${t("chat.failed")}<//>`}${entry.taint && html`<${Badge} kind="warn">${t("context.untrusted", { from: entry.taint.join(", ") })}<//>`}${entry.pictures > 0 && html`<${Badge}>${t("context.pictures", { n: entry.pictures })}<//>`}${entry.notes && (Array.isArray(entry.notes) ? entry.notes.join(", ") : "")}${entry.before ? `${number(entry.before)} → ${number(entry.after)}` : ""}</p>
    ${entry.kind === "assistant" || entry.kind === "user" ? html`${text}${cut}` : entry.text && (said || entry.kind !== "unreadable") && html`<details><summary>${t("sessions.show")}</summary>${text}${cut}</details>`}
    ${entry.calls?.map((one, n) => html`<details key=${n}><summary class="mono">${one.name}</summary><pre class="wrap" tabindex="0">${one.arguments ? JSON.stringify(one.arguments, null, 1) : one.raw}</pre></details>`)}
    ${entry.failure && html`<p class="error" dir="auto">${entry.failure}</p>`}</article>`;
}
