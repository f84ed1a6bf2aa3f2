// A conversation: what was said, the answer as it grows, tools that unfold, questions with buttons, files both ways, and recordings.
import { html, useState, useEffect, useRef, useCallback, Page, Button, Badge, Dialog, ErrorNotice, Field, Loading, Markdown, Notice, Select, VirtualList, When, useCall, useKept } from "../ui.js";
import { call, upload } from "../api.js";
import { onLive, tell } from "../live.js";
import { t, time, day, bytes } from "../texts.js";

const PART = 200;
const newKey = () => [...crypto.getRandomValues(new Uint8Array(12))].map((one) => one.toString(16).padStart(2, "0")).join("");
const waits = (one) => one.buttons && (!one.approval || one.approval.state === "pending");
const short = (key) => key.replace(/^agent:[^:]*:/, "");

// Puts items in order without doubles; each tool call takes its result with it, so that one line shows both.
function arranged(items) {
  const known = new Map();
  const calls = new Map();
  // What was sent or typed here stands for what the transcript has of the same turn, whichever comes first.
  const sent = new Set(items.filter((one) => one.uid && one.who === "agent" && one.text && !one.buttons).map((one) => one.uid));
  const typed = new Set(items.filter((one) => one.uid && one.who === "user").map((one) => one.uid));
  // Further messages of one turn are TURN~MESSAGE:0 in the transcript.
  const doubled = (one) => !one.uid && (one.who === "agent" ? sent : one.who === "user" ? typed : new Set()).has(one.id.slice(one.id.indexOf("~") + 1, one.id.lastIndexOf(":")));
  for (const one of items.filter((found) => !doubled(found))) {
    if (one.who === "tool") calls.set(one.call, one);
    if (one.who === "result" && calls.has(one.call)) {
      const asked = calls.get(one.call);
      if (asked.result?.id !== one.id) known.set(asked.id, { ...asked, result: one });
      continue;
    }
    const target = one.who === "press" ? known.get(one.target) : null;
    if (target) known.set(target.id, { ...target, pressed: one.label });
    else if (one.who !== "press") known.set(one.id, one);
  }
  return [...known.values()].sort((a, b) => (a.at < b.at ? -1 : a.at > b.at ? 1 : 0));
}

// What is shown of a turn that runs, after one more event. `again`: the event may be in what is shown already.
function grown(live, { kind, data }, again) {
  if (kind === "chat.said" && data.item.who === "agent") return null;
  if (kind === "chat.typing") return live || { draft: "", activities: [] };
  if (kind === "chat.draft") return { activities: [], ...live, draft: (live?.draft || "").slice(0, data.at) + data.text };
  if (kind !== "chat.activity" || (again && live?.activities.some((one) => one.text === data.text && one.state === data.state))) return live;
  return { draft: "", ...live, activities: [...(live?.activities || []), data].slice(-200) };
}

// The conversation of a session: loaded in parts from its end, kept up to date by live events, and asked for again after a loss.
function useConversation(session) {
  const [state, change] = useState({ loading: true, items: [], before: null });
  const [live, setLive] = useState(null);
  const [failure, lose] = useState(null);
  // What was refused stays until something else is sent; what a lost connection or sign-in prevented, until the page is back.
  const [refused, refuse] = useState(null);
  const fail = useCallback((error) => { const away = [0, 401].includes(error?.status); refuse(away ? null : error); lose(away ? error : null); }, []);
  const loading = useRef(false);
  // For each request that is on its way, the events since it was made: its answer may be older than they are.
  const asked = useRef(new Set()).current;
  const shown = useRef(); shown.current = session;
  const reload = useCallback(async () => {
    // It was put off, and another session is shown by now.
    if (shown.current !== session) return;
    const news = [];
    asked.add(news);
    let found, error = null;
    try { found = await call("chat.history", { session, limit: PART }); } catch (why) { error = why; }
    // A later one was answered, or another session is shown.
    if (!asked.has(news)) return;
    for (const one of asked) { asked.delete(one); if (one === news) break; }
    lose(error);
    if (error) { change((old) => ({ ...old, loading: false })); return; }
    change((old) => {
      // What was loaded before this part stays, if nothing is missing between them.
      const first = found.items.find((one) => one.who !== "result")?.id;
      const same = old.id === found.session;
      const older = same ? old.items.slice(0, Math.max(0, old.items.findIndex((one) => one.id === first))) : [];
      const notes = same ? old.items.filter((one) => one.who === "note") : [];
      const said = news.filter((one) => one.kind === "chat.said").map((one) => one.data.item);
      return { loading: false, id: found.session, items: arranged([...older, ...notes, ...found.items, ...said]), before: older.length ? old.before : found.before };
    });
    setLive(news.reduce((shown, one) => grown(shown, one, true), found.live));
  }, [session]);
  const more = useCallback(async () => {
    if (loading.current || state.before === null || state.loading) return;
    loading.current = true;
    try {
      const found = await call("chat.history", { session, before: state.before, limit: PART });
      change((old) => (old.id === found.session && old.before === state.before ? { ...old, items: arranged([...found.items, ...old.items]), before: found.before } : old));
    } catch (error) { lose(error); }
    loading.current = false;
  }, [session, state.before, state.loading]);
  useEffect(() => { asked.clear(); change({ loading: true, items: [], before: null }); setLive(null); fail(null); reload(); }, [session]);
  useEffect(() => onLive("chat.*", (event) => {
    const { kind, data } = event;
    if (kind === "reload") { reload(); return; }
    if (data?.session !== session) return;
    for (const one of asked) one.push(event);
    setLive((old) => {
      // Some of the draft is not known.
      if (kind === "chat.draft" && data.at > (old?.draft || "").length) { if (!asked.size) setTimeout(reload); return old; }
      return grown(old, event);
    });
    const add = (one) => change((old) => ({ ...old, items: arranged([...old.items, one]) }));
    if (kind === "chat.said") add(data.item);
    else if (kind === "chat.note") add({ id: newKey(), at: data.at, who: "note", text: data.text });
    else if (kind === "chat.rejected") fail({ message: data.reason, hint: data.hint });
    else if (kind === "chat.done") setTimeout(reload, 250);
    // What was shown of the turn stays until its answer comes.
    else if (kind === "chat.idle") setTimeout(reload, 1500);
  }), [session, reload]);
  // A turn that was asked for elsewhere: in a terminal, a chat, or by a job.
  useEffect(() => onLive("sessions", ({ kind }) => kind === "sessions" && reload()), [reload]);
  // A question that was decided, here or elsewhere.
  const asks = state.items.some(waits);
  useEffect(() => asks ? onLive("approvals", ({ kind }) => kind === "approvals" && reload()) : undefined, [reload, asks]);
  // An answer that is in the transcript already is not shown a second time as it grew.
  const stored = live?.draft && state.items.slice(-4).some((one) => one.who === "agent" && one.text?.trim() === live.draft.trim());
  return { ...state, live: stored ? { ...live, draft: "" } : live, failure: refused || failure, fail, reload, more };
}

function File({ file }) {
  const address = `/page/file/${file.id}`;
  if (/^image\/(png|jpeg|gif|webp)$/.test(file.type)) return html`<a href=${address} target="_blank" rel="noopener"><img class="shown" src=${address} alt=${file.name} loading="lazy" /></a>`;
  if (file.type.startsWith("audio/")) return html`<audio controls preload="none" src=${address} aria-label=${file.name}></audio>`;
  if (file.type.startsWith("video/")) return html`<video class="shown" controls preload="none" src=${address} aria-label=${file.name}></video>`;
  return html`<a class="file" href=${address} download=${file.name} dir="auto">${file.name} <span class="soft">${bytes(file.size)}</span></a>`;
}

const Icon = ({ path }) => html`<svg class="icon" viewBox="0 0 24 24" aria-hidden="true" focusable="false"><path d=${path} /></svg>`;

function Tool({ item }) {
  const failed = item.result?.error;
  // A call that waits for a yes has a result that only says so.
  const asked = item.result?.approval?.state;
  const pending = asked === "pending";
  return html`<details class="tool"><summary>${failed ? "✗" : item.result && !asked ? "✓" : "…"} <span class="mono whole">${item.name}</span>${asked ? asked !== "approved" && html` <${Badge} kind="warn">${t(pending ? "health.is.waiting" : `approvals.${asked}`)}<//>` : failed && html` <${Badge} kind="bad">${t("chat.failed")}<//>`}<span class="soft glimpse" dir="auto">${(item.text || "").replace(/\s+/g, " ").slice(0, 120)}</span></summary>
    <h3>${t("chat.given")}</h3><pre tabindex="0" dir="auto"><code>${item.text}</code></pre>
    ${item.result && !pending && html`<h3>${t("chat.result")}</h3><pre tabindex="0" dir="auto"><code>${item.result.text}</code></pre>${item.result.more && html`<p class="hint">${t("chat.more", { n: item.result.more })}</p>`}`}</details>${pending && html`<p class="hint"><a href="#/approvals">${t("nav.approvals")}</a></p>`}`;
}

function Item({ item, role, onPress, first }) {
  const date = first && html`<p class="day">${day(item.at)}</p>`;
  if (item.who === "tool") return html`${date}<${Tool} item=${item} />`;
  if (item.who === "result") return html`${date}<details class="tool"><summary>${item.name || t("chat.result")}</summary><pre tabindex="0" dir="auto"><code>${item.text}</code></pre></details>`;
  if (item.who === "mark") return html`${date}<p class="mark">${t(item.mark === "compacted" ? "chat.compacted" : "chat.flushed")}</p>`;
  if (item.who === "note") return html`${date}<p class="mark" dir="auto">${item.text}</p>`;
  const mine = item.who === "user";
  return html`${date}<article class=${`bubble ${mine ? "mine" : "theirs"}`} aria-label=${t(mine ? "chat.byYou" : "chat.byAgent", { at: time(item.at) })}>
    ${item.from && html`<p class="from" dir="auto">${item.from}</p>`}
    ${item.voice && html`<p class="from">${t("chat.voice")}</p>`}
    ${item.tree ? html`<${Markdown} tree=${item.tree} />` : item.text && html`<p class="said" dir="auto">${item.text}</p>`}
    ${item.others && html`<details><summary>${t("chat.others")}</summary><p class="said" dir="auto">${item.others}</p></details>`}
    ${item.files?.map((one) => html`<${File} key=${one.id} file=${one} />`)}
    ${item.buttons && !waits(item) && html`<p class="hint">${t("approvals.decision")}: ${t(`approvals.${item.approval.state}`)}${item.approval.always && ` (${t("approvals.always")})`}</p>`}
    ${waits(item) && html`<div class="row buttons">${item.buttons.map((one, place) => html`<${Button} key=${one.value} kind=${place ? "" : "main"} disabled=${role !== "owner" || item.pressed} onClick=${() => onPress(item, one)}>${one.label}<//>`)}</div>${item.pressed && html`<p class="hint">${t("chat.pressed", { label: item.pressed })}</p>`}`}
    <p class="at"><time datetime=${item.at}>${time(item.at)}</time></p></article>`;
}

function Growing({ live, onStop, role }) {
  const latest = live.activities[live.activities.length - 1];
  return html`<div class="growing">
    ${live.activities.filter((one) => one.state !== "started").slice(-5).map((one, index) => html`<p key=${index} class="step soft" dir="auto">${one.state === "failed" ? "✗" : "✓"} ${one.text}</p>`)}
    ${live.draft && html`<article class="bubble theirs"><p class="said" dir="auto">${live.draft}</p></article>`}
    <div class="row"><p class="soft working" role="status">${latest?.state === "started" ? t("chat.doing", { what: latest.text }) : t("chat.working")}</p>${role === "owner" && html`<${Button} onClick=${onStop}>${t("chat.stop")}<//>`}</div></div>`;
}

// Moves the marks of the characters of a text along with one change of it, which put in `data` before the caret; what is new has "0".
function marked(marks, before, after, caret, data) {
  const same = before.endsWith(after.slice(caret)) ? after.length - caret : 0;
  const most = Math.min(before.length - same, caret - (data || "").length);
  let start = 0;
  while (start < most && before[start] === after[start]) start += 1;
  return marks.slice(0, start) + "0".repeat(Math.max(0, after.length - start - same)) + marks.slice(before.length - same);
}

function useRecorder(onDone, onError) {
  const [recorder, set] = useState(null);
  const start = async () => {
    try {
      const stream = await navigator.mediaDevices.getUserMedia({ audio: true });
      const made = new MediaRecorder(stream);
      const parts = [];
      made.ondataavailable = (event) => parts.push(event.data);
      made.onstop = () => {
        stream.getTracks().forEach((one) => one.stop());
        set(null);
        const type = made.mimeType.split(";")[0] || "audio/webm";
        if (!made.dropped) onDone(new window.File(parts, `recording.${type.split("/")[1]}`, { type }));
      };
      made.start();
      set(made);
    } catch { onError({ message: t("chat.noMicrophone"), hint: t("chat.noMicrophoneHint") }); }
  };
  return { recording: !!recorder, start, stop: () => recorder?.stop(), drop: () => { if (recorder) { recorder.dropped = true; recorder.stop(); } } };
}

// What is typed is kept until the gateway has stored it: an expired cookie, a lost connection or a closed tab loses nothing.
function Composer({ session, onFail, busy }) {
  const [text, setText] = useKept(`chat.${session}`);
  const [files, setFiles] = useState([]);
  const [sending, setSending] = useState(false);
  const [progress, setProgress] = useState(0);
  const key = useRef({ value: newKey(), of: "" });
  const box = useRef();
  const picker = useRef();
  const now = useRef(text);
  now.current = text;
  // While a message is being sent: for each character of the field "1" if it is one of those that are sent.
  const sent = useRef("");
  const write = ({ target, data }) => {
    sent.current = marked(sent.current, now.current, target.value, target.selectionStart, data);
    setText(now.current = target.value);
  };
  useEffect(() => { const one = box.current; if (one) { one.style.setProperty("height", "auto"); one.style.setProperty("height", `${Math.min(one.scrollHeight + 2, innerHeight * 0.4)}px`); } }, [text]);
  const send = async (said, added, recorded = false) => {
    setSending(true);
    sent.current = (recorded ? "0" : "1").repeat(now.current.length);
    // The same message has the same name, so that one that is sent again after a lost answer is stored once.
    const what = JSON.stringify([session, said, added.map((one) => [one.name, one.size])]);
    if (key.current.of !== what) key.current = { value: newKey(), of: what };
    try {
      const stored = [];
      for (const [place, one] of added.entries()) stored.push((one.stored ||= await upload(one.file, (part) => setProgress((place + part) / added.length))).id);
      const { item } = await call("chat.say", { session, text: said, key: key.current.value, files: stored, recorded });
      tell({ kind: "chat.said", data: { session, item } });
      key.current = { value: newKey(), of: "" };
      onFail(null);
      // What was typed or added meanwhile stays.
      setText([...sent.current].map((mark, place) => (mark === "1" ? "" : now.current[place])).join("").trimStart());
      setFiles((old) => old.filter((one) => !added.includes(one)));
    } catch (error) { onFail(error); if (recorded) setFiles((old) => [...old, ...added]); }
    setSending(false);
    setProgress(0);
    box.current?.focus();
  };
  const add = (list) => setFiles((old) => [...old, ...[...list].map((file) => ({ name: file.name, size: file.size, file }))].slice(0, 10));
  const voice = useRecorder((file) => send("", [{ name: file.name, size: file.size, file }], true), onFail);
  const submit = (event) => { event?.preventDefault(); if (!sending && (now.current.trim() || files.length)) send(now.current, files); };
  const typed = (event) => {
    const touch = matchMedia("(pointer: coarse)").matches;
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing && !touch) submit(event);
  };
  return html`<form class="composer" onSubmit=${submit} onDragOver=${(event) => event.preventDefault()} onDrop=${(event) => { event.preventDefault(); add(event.dataTransfer.files); }}>
    ${files.length > 0 && html`<ul class="files">${files.map((one, place) => html`<li key=${place}><span dir="auto">${one.name}</span> <span class="soft">${bytes(one.size)}</span> <${Button} kind="bare" label=${t("chat.remove", { name: one.name })} onClick=${() => setFiles(files.filter((other) => other !== one))}>✕<//></li>`)}</ul>`}
    ${voice.recording ? html`<div class="row"><p role="status" class="recording">${t("chat.recording")}</p><${Button} kind="main" onClick=${voice.stop}>${t("chat.sendVoice")}<//><${Button} onClick=${voice.drop}>${t("shell.cancel")}<//></div>`
      : html`<div class="write"><label class="unseen" for="message">${t("chat.message")}</label>
      <textarea id="message" ref=${box} rows="1" dir="auto" placeholder=${t("chat.message")} value=${text} onInput=${write} onKeyDown=${typed}
        onPaste=${(event) => { if (event.clipboardData?.files.length) { event.preventDefault(); add(event.clipboardData.files); } }}></textarea>
      <input type="file" multiple hidden ref=${picker} onChange=${(event) => { add(event.target.files); event.target.value = ""; }} aria-hidden="true" tabindex="-1" />
      <${Button} label=${t("chat.addFile")} onClick=${() => picker.current.click()}><${Icon} path="M8 12.5 14.5 6a3 3 0 0 1 4.2 4.2l-8.4 8.4a5 5 0 0 1-7-7L11 4" /><//>
      ${navigator.mediaDevices && window.MediaRecorder && html`<${Button} label=${t("chat.record")} onClick=${voice.start}><${Icon} path="M12 3a3 3 0 0 0-3 3v5a3 3 0 0 0 6 0V6a3 3 0 0 0-3-3zM6 11a6 6 0 0 0 12 0M12 17v4" /><//>`}
      <${Button} kind="main" type="submit" busy=${sending} disabled=${!text.trim() && !files.length}>${t("chat.send")}<//></div>`}
    ${sending && progress > 0 && html`<progress max="1" value=${progress} aria-label=${t("chat.sending")}></progress>`}</form>`;
}

function Search({ session, onFound, onClose }) {
  const [words, setWords] = useState("");
  const [wanted, setWanted] = useState("");
  const { value, error, loading } = useCall(wanted ? "chat.search" : "", { session, words: wanted });
  const box = useRef();
  useEffect(() => box.current?.querySelector("input")?.focus(), []);
  return html`<section class="search card" ref=${box} aria-label=${t("chat.search")}><form class="row" role="search" onSubmit=${(event) => { event.preventDefault(); setWanted(words.trim()); }}>
    <${Field} label=${t("chat.searchWords")} hidden type="search" placeholder=${t("chat.searchWords")} value=${words} onInput=${setWords} /><${Button} type="submit" kind="main">${t("chat.find")}<//><${Button} kind="bare" label=${t("shell.close")} onClick=${onClose}>✕<//></form>
    <${ErrorNotice} error=${error} />${wanted && loading && html`<${Loading} />`}
    ${wanted && value && html`<p role="status" class="soft">${t("chat.found", { n: value.length })}</p><ul class="plainlist">${value.map((one) => html`<li key=${one.id}><button type="button" class="button bare" onClick=${() => onFound(one)}><span class="soft">${t(one.who === "user" ? "costs.origin.owner" : "sessions.who.assistant")}, <${When} at=${one.at} /></span><br /><span dir="auto">${one.text}</span></button></li>`)}</ul>`}</section>`;
}

function NewSession({ agents, onClose }) {
  const [agent, setAgent] = useState(agents[0].id);
  const [name, setName] = useState("");
  const clean = name.trim().toLowerCase().replace(/[\s:/\\]+/g, "-").slice(0, 60);
  const go = (event) => { event?.preventDefault(); if (clean) { location.hash = `#/chat/${encodeURIComponent(`agent:${agent}:${clean}`)}`; onClose(); } };
  return html`<${Dialog} title=${t("chat.new")} onClose=${onClose} actions=${html`<${Button} onClick=${onClose}>${t("shell.cancel")}<//><${Button} kind="main" onClick=${go} disabled=${!clean}>${t("chat.begin")}<//>`}>
    <form onSubmit=${go}>${agents.length > 1 && html`<${Select} label=${t("costs.by.agent")} value=${agent} onInput=${setAgent} options=${agents.map((one) => [one.id, one.name])} />`}
      <${Field} label=${t("chat.newName")} hint=${t("chat.newHint")} value=${name} onInput=${setName} maxlength="60" /></form><//>`;
}

export default function Chat({ route, role, agents, me }) {
  const main = agents.find((one) => one.id === me.defaultAgent) || agents[0];
  const session = route.parts[0] || main.main;
  const talk = useConversation(session);
  const { value: sessions, reload: again } = useCall("chat.sessions", {}, { live: ["chat.done", "sessions"] });
  const [dialog, setDialog] = useState("");
  const [searching, setSearching] = useState(false);
  const [anchor, setAnchor] = useState(null);
  const [told, tell] = useState("");
  useEffect(() => { setAnchor(null); setSearching(false); }, [session]);
  useEffect(() => onLive("chat.said", ({ data }) => data?.session === session && data.item.who === "agent" && tell(data.item.text || "")), [session]);
  const name = (key, agent, label) => `${agents.length > 1 ? `${label}: ` : ""}${key === `agent:${agent}:main` ? t("chat.main") : short(key)}`;
  const options = (sessions || []).map((one) => [one.key, name(one.key, one.agent, one.name)]);
  if (!options.some(([key]) => key === session)) options.unshift([session, name(session, session.split(":")[1], session.split(":")[1])]);
  const press = async (item, button) => {
    try { await call("chat.press", { session, target: item.id, value: button.value, key: newKey() }); } catch (error) { await talk.reload(); talk.fail(error); }
  };
  const stop = async () => { try { await call("chat.stop", { session }); } catch (error) { talk.fail(error); } };
  const jump = async (found) => {
    const has = (items) => items.find((one) => one.id === found.id || one.id.startsWith(`${found.id}.`) || Math.abs(new Date(one.at) - new Date(found.at)) < 5000);
    for (let tries = 0; tries < 300 && !has(items.current); tries += 1) { if (before.current === null) break; await more.current(); await new Promise((go) => setTimeout(go, 0)); }
    setAnchor(has(items.current)?.id || null);
  };
  const items = useRef(talk.items); items.current = talk.items;
  const before = useRef(talk.before); before.current = talk.before;
  const more = useRef(talk.more); more.current = talk.more;
  // A message that did not change is not drawn again.
  const drawn = useRef(new WeakMap());
  const draw = (one, place) => {
    const first = !place || talk.items[place - 1].at.slice(0, 10) !== one.at.slice(0, 10);
    const known = drawn.current.get(one);
    if (known?.first === first) return known.shown;
    const shown = html`<${Item} item=${one} role=${role} onPress=${press} first=${first} />`;
    drawn.current.set(one, { first, shown });
    return shown;
  };
  const actions = html`<${Select} label=${t("chat.session")} hidden value=${session} options=${options} onInput=${(key) => { location.hash = `#/chat/${encodeURIComponent(key)}`; }} />
    ${role === "owner" && html`<${Button} onClick=${() => setDialog("new")} label=${`${t("chat.newShort")}: ${t("chat.session")}`}>${t("chat.newShort")}<//>`}<${Button} onClick=${() => setSearching(!searching)}>${t("chat.search")}<//>`;
  return html`<div class="chat"><${Page} title=${t("nav.chat")} actions=${actions} wide>
    ${searching && html`<${Search} session=${session} onFound=${jump} onClose=${() => setSearching(false)} />`}
    <${ErrorNotice} error=${talk.failure?.status === 401 ? null : talk.failure} retry=${talk.failure && (() => { talk.fail(null); talk.reload(); })} /><h2 class="unseen">${t("chat.conversation")}</h2>
    ${talk.loading ? html`<${Loading} />` : talk.items.length || talk.live ? html`<${VirtualList} key=${session} items=${talk.items} keyOf=${(one) => one.id} end onStart=${talk.more} anchor=${anchor} label=${t("chat.conversation")}
      item=${draw}
      foot=${talk.live && html`<${Growing} live=${talk.live} role=${role} onStop=${stop} />`} />` : html`<p class="empty first">${t("chat.empty")}</p>`}
    <p class="unseen" role="status" aria-live="polite">${told.replace(/[*_`#|]+/g, "").slice(0, 500)}</p>
    ${role === "owner" ? html`<${Composer} key=${session} session=${session} onFail=${talk.fail} />` : html`<${Notice}>${t("chat.viewer")}<//>`}
    ${dialog === "new" && html`<${NewSession} agents=${agents} onClose=${() => { setDialog(""); again(); }} />`}<//></div>`;
}
