// Memory: notes and prompt files, their journal line by line and change by change, and searches with their explanation.
import { call } from "../api.js";
import { onLive } from "../live.js";
import { bytes, number, t } from "../texts.js";
import { Badge, Button, Dialog, Diff, Empty, ErrorNotice, Field, html, Loading, Notice, Page, Select, Table, Tabs, typed, useCall, useCallback, useEffect, useRef, useState, When } from "../ui.js";

const at = (place, query = {}) => `#/memory${place}?${new URLSearchParams(Object.entries(query).filter(([, value]) => value))}`;
const today = () => new Date(Date.now() - new Date().getTimezoneOffset() * 60000).toISOString().slice(0, 10);

export default function Memory({ route, role, agents }) {
  const agent = route.query.agent || agents[0]?.id;
  const place = route.parts[0] || "";
  const path = route.query.path || "";
  const tabs = [["", t("memory.files")], ["search", t("chat.search")], ["journal", t("memory.journal")]].map(([name, title]) => [name, title, at(name && `/${name}`, { agent })]);
  return html`<${Page} title=${t("nav.memory")}>
    <${Tabs} label=${t("nav.memory")} tabs=${tabs} chosen=${place === "file" || place === "lines" ? "" : place} />
    ${agents.length > 1 && html`<${Select} label=${t("costs.by.agent")} value=${agent} options=${agents.map((one) => [one.id, one.name || one.id])}
      onInput=${(next) => { location.hash = at(place === "file" || !place ? "" : `/${place}`, { agent: next }); }} />`}
    ${place === "file" ? html`<${File} key=${`${agent}:${path}`} agent=${agent} path=${path} role=${role} fresh=${route.query.new === "1"} />`
    : place === "lines" ? html`<${Lines} key=${path} agent=${agent} path=${path} />`
    : place === "journal" ? html`<${Journal} key=${`${agent}:${path}`} agent=${agent} path=${path} role=${role} open=${route.query.change} />`
    : place === "search" ? html`<${Search} key=${agent} agent=${agent} query=${route.query.q || ""} line=${route.query.line || ""} />`
    : html`<${Files} agent=${agent} role=${role} />`}
  <//>`;
}

function Untrusted({ sources }) {
  return sources?.length ? html` <${Badge} kind="warn">${t("memory.untrusted")}<//>` : null;
}

function Files({ agent, role }) {
  const { value, error, reload } = useCall("memory.files", { agent }, { live: "memory" });
  const [wanted, filter] = useState("");
  const [making, make] = useState(false);
  if (!value) return error ? html`<${ErrorNotice} error=${error} retry=${reload} />` : html`<${Loading} />`;
  const rows = value.files.filter((one) => one.path.toLowerCase().includes(wanted.toLowerCase()));
  const kinds = { prompt: t("memory.prompt"), note: t("memory.note"), elsewhere: t("memory.elsewhere") };
  return html`<p class="hint">${t("memory.folder", { folder: value.workspace })}</p>
    ${!value.journal && html`<${Notice} kind="info">${t("memory.noJournal")}<//>`}
    <div class="row bar"><${Field} label=${t("memory.filter")} type="search" value=${wanted} onInput=${filter} />
      ${role === "owner" && html`<${Button} kind="main" onClick=${() => make(true)}>${t("memory.new")}<//>`}</div>
    <${Table} rows=${rows} empty=${t("memory.none")} columns=${[
      { key: "path", title: t("approvals.file"), cell: (one) => html`<a dir="auto" href=${at("/file", { agent, path: one.path })}>${one.path}</a><${Untrusted} sources=${one.untrusted} />${one.trouble && html`<br /><small class="error">${one.trouble}</small>`}` },
      { key: "kind", title: t("memory.kind"), cell: (one) => html`${kinds[one.kind]}${one.audience && html` <${Badge}>${one.audience}<//>`}` },
      { key: "size", title: t("memory.size"), cell: (one) => bytes(one.size) },
      { key: "modified", title: t("memory.changed"), cell: (one) => html`<${When} at=${new Date(one.modified).toISOString()} />` },
    ]} />
    ${making && html`<${NewNote} agent=${agent} close=${() => make(false)} />`}`;
}

function NewNote({ agent, close }) {
  const [path, change] = useState(`memory/${today()}.md`);
  const go = (event) => { event.preventDefault(); close(); location.hash = at("/file", { agent, path, new: "1" }); };
  return html`<${Dialog} title=${t("memory.new")} onClose=${close} actions=${html`<${Button} onClick=${close}>${t("shell.cancel")}<//><${Button} kind="main" onClick=${go}>${t("memory.begin")}<//>`}>
    <form onSubmit=${go}><${Field} label=${t("memory.path")} hint=${t("memory.pathHelp")} value=${path} onInput=${change} required /></form><//>`;
}

// What was typed and not saved, by file.
const drafts = {
  key: (agent, path) => `homebody.kept.note.${agent}:${path}`,
  get: (agent, path) => JSON.parse(typed.get(drafts.key(agent, path))),
  put: (agent, path, value) => typed.put(drafts.key(agent, path), value && JSON.stringify(value)),
};

function File({ agent, path, role, fresh }) {
  const [file, setFile] = useState(null);
  const [text, setText] = useState("");
  const [conflict, setConflict] = useState(null);
  const [error, setError] = useState(null);
  const [said, say] = useState("");
  const [busy, setBusy] = useState(false);
  const [removing, remove] = useState(false);
  const dirty = file && text !== file.text;
  const now = useRef({});
  const gone = useRef(false);
  now.current = { file, dirty, text };

  const load = useCallback(async (offset = 0) => {
    try {
      const read = await call("memory.read", { agent, path, offset });
      let draft = read.editable ? drafts.get(agent, path) : null;
      // It was saved, and only the answer got lost.
      if (draft?.text === read.text) draft = drafts.put(agent, path, null);
      setFile(draft ? { ...read, hash: draft.hash } : read);
      setText(draft ? draft.text : read.text);
      setError(null);
      if (draft && draft.hash !== read.hash) check(draft.text, draft.hash, read);
    } catch (wrong) { setError(wrong); }
  }, [agent, path]);
  useEffect(() => {
    if (!fresh) return void load();
    setFile({ path, text: "", hash: null, editable: true, why: "", next: null, offset: 0 });
    setText(drafts.get(agent, path)?.text || "");
  }, [load]);

  // Another tab or the agent changed the file: shown at once where nothing was typed, otherwise told and kept.
  useEffect(() => onLive("memory", async () => {
    const { file: open, dirty: typed } = now.current;
    if (!open || open.hash === null || !open.editable || gone.current) return;
    const read = await call("memory.read", { agent, path }).catch(() => null);
    if (!read || read.hash === now.current.file.hash) return;
    if (typed && read.text !== now.current.text) check(now.current.text, open.hash, read);
    else { drafts.put(agent, path, null); setFile(read); setText(read.text); setConflict(null); setError(null); }
  }), [agent, path]);

  function check(mine, hash, read) {
    setConflict({ present: { hash: read.hash, text: read.text }, diff: lines(read.text, mine) });
  }

  function type(next) {
    setText(next);
    say("");
    drafts.put(agent, path, next === file.text && file.hash !== null ? null : { text: next, hash: file.hash });
  }

  async function save(expected) {
    setBusy(true);
    try {
      const done = await call("memory.write", { agent, path, text, expected });
      if (!done.written) return setConflict(done);
      drafts.put(agent, path, null);
      history.replaceState(null, "", at("/file", { agent, path }));
      setFile(done);
      setText(done.text);
      setConflict(null);
      setError(null);
      say(t("memory.saved"));
    } catch (wrong) { setError(wrong); } finally { setBusy(false); }
  }

  function takeTheirs() {
    drafts.put(agent, path, null);
    setFile({ ...file, ...conflict.present, text: conflict.present.text || "" });
    setText(conflict.present.text || "");
    setConflict(null);
  }

  async function drop() {
    gone.current = true;
    try {
      const done = await call("memory.remove", { agent, path, expected: file.hash });
      if (!done.written) { gone.current = false; remove(false); return setConflict(done); }
      drafts.put(agent, path, null);
      location.hash = at("", { agent });
    } catch (wrong) { gone.current = false; remove(false); setError(wrong); }
  }

  const head = html`<p class="crumbs"><a href=${at("", { agent })}>${t("memory.files")}</a> / <b dir="auto">${path}</b></p>`;
  if (!file) return html`${head}${error ? html`<${ErrorNotice} error=${error} retry=${() => load()} />` : html`<${Loading} />`}`;
  const editing = file.editable && role === "owner";
  return html`${head}
    <p class="row bar">${file.hash && html`<a href=${at("/lines", { agent, path })}>${t("memory.who")}</a> <a href=${at("/journal", { agent, path })}>${t("memory.changes")}</a>`}
      ${file.size !== undefined && html`<span class="hint">${bytes(file.size)}</span>`}</p>
    ${error && html`<${ErrorNotice} error=${error} />`}
    ${conflict && html`<${Notice} kind="warn"><p>${t("memory.conflict")}</p><${Diff} lines=${conflict.diff} />
      <div class="row"><${Button} kind="main" busy=${busy} onClick=${() => save(conflict.present.hash)}>${t("memory.keepMine")}<//>
      <${Button} onClick=${takeTheirs}>${t("memory.takeTheirs")}<//></div><//>`}
    ${file.why && html`<${Notice} kind="info">${t("memory.readOnly", { why: file.why })}<//>`}
    ${editing ? html`<${Field} label=${t("health.text")} class="note" rows="18" spellcheck="true" value=${text} onInput=${type}
          onKeyDown=${(event) => { if ((event.ctrlKey || event.metaKey) && event.key === "s") { event.preventDefault(); if (dirty) save(file.hash); } }} />
      <div class="row"><${Button} kind="main" busy=${busy} disabled=${!dirty && file.hash !== null} onClick=${() => save(file.hash)}>${t("memory.save")}<//>
        ${dirty && html`<${Button} onClick=${() => type(file.text)}>${t("memory.discard")}<//>`}
        ${file.hash && html`<${Button} kind="danger" onClick=${() => remove(true)}>${t("memory.delete")}<//>`}
        <span role="status" class="hint">${said || (dirty ? t("memory.unsaved") : "")}</span></div>`
    : html`<${Pages} file=${file} load=${load} /><pre class="note" dir="auto" tabindex="0" aria-label=${path}>${file.text}</pre><${Pages} file=${file} load=${load} />`}
    ${removing && html`<${Dialog} title=${t("memory.delete")} onClose=${() => remove(false)} actions=${html`<${Button} onClick=${() => remove(false)}>${t("shell.cancel")}<//><${Button} kind="danger" onClick=${drop}>${t("memory.delete")}<//>`}>
      <p>${t("memory.deleteSure", { path })}</p><//>`}`;
}

function Pages({ file, load }) {
  const past = useRef([]);
  if (file.next === null && !file.offset) return null;
  const back = () => load(past.current.pop() || 0);
  const on = () => { past.current.push(file.offset); load(file.next); };
  return html`<div class="row"><${Button} disabled=${!file.offset} onClick=${back}>${t("memory.before")}<//>
    <span>${t("memory.from", { line: file.line, lines: file.lines })}</span>
    <${Button} disabled=${file.next === null} onClick=${on}>${t("memory.after")}<//></div>`;
}

// The lines that only one of two texts has, for a notice before anything is saved; the gateway's own difference follows with the answer.
function lines(theirs, mine) {
  const [old, next] = [theirs.split("\n"), mine.split("\n")];
  let [start, end] = [0, 0];
  while (start < old.length && start < next.length && old[start] === next[start]) start += 1;
  while (end < old.length - start && end < next.length - start && old[old.length - 1 - end] === next[next.length - 1 - end]) end += 1;
  return [...old.slice(start, old.length - end).map((line) => `-${line}`), ...next.slice(start, next.length - end).map((line) => `+${line}`)];
}

function who(author) {
  if (!author) return t("memory.unknown");
  const { kind, name } = author;
  if (kind === "agent") return t("memory.byAgent", { name });
  const known = new Map([["browser page", t("memory.inBrowser")], ["tidy", t("memory.tidying")], ["a wish to be forgotten", t("memory.wish")]]);
  const undone = /^undo of ([\d.]+)$/.exec(name);
  return name ? t("memory.byOwnerIn", { name: undone ? t("memory.undoOf", { n: undone[1] }) : known.get(name) || name }) : t("memory.byOwner");
}

function Author({ author }) {
  return author?.session ? html`<a href=${`#/sessions/${encodeURIComponent(author.session)}`}>${who(author)}</a>` : who(author);
}

function Lines({ agent, path }) {
  const { value, error, reload } = useCall("memory.blame", { agent, path });
  const [most, show] = useState(400);
  const head = html`<p class="crumbs"><a href=${at("", { agent })}>${t("memory.files")}</a> / <a dir="auto" href=${at("/file", { agent, path })}>${path}</a> / <b>${t("memory.who")}</b></p>`;
  if (!value) return html`${head}${error ? html`<${ErrorNotice} error=${error} retry=${reload} />` : html`<${Loading} />`}`;
  // Lines that one change wrote one after the other stand together.
  const blocks = [];
  value.lines.slice(0, most).forEach((one, index) => {
    const last = blocks[blocks.length - 1];
    if (last && last.version === one.version && String(last.untrusted) === String(one.untrusted)) last.text += `\n${one.text}`;
    else blocks.push({ ...one, n: index + 1 });
  });
  return html`${head}<p class="hint">${t("memory.whoHelp")}</p>${blocks.length === 0 && html`<${Empty}>${t("memory.noLines")}<//>`}
    <ol class="items">${blocks.map((one) => html`<li key=${one.n}><p class="hint"><${Author} author=${one.author} />${one.version && html` · <a href=${at("/journal", { agent, path, change: one.version })}><${When} at=${one.at} /></a>`}
      ${one.untrusted.length > 0 && html` <${Badge} kind="warn">${t("memory.untrustedFrom", { sources: one.untrusted.join(", ") })}<//>`}</p>
      <pre class="snippet lined" dir="auto">${one.text.split("\n").map((line, index) => html`<span class="line"><span class="hint">${one.n + index}</span> ${line}${"\n"}</span>`)}</pre></li>`)}</ol>
    ${most < value.lines.length && html`<${Button} onClick=${() => show(most + 1000)}>${t("memory.more")}<//>`}`;
}

function Journal({ agent, path, role, open }) {
  const [limit, most] = useState(50);
  const { value, error, reload } = useCall("memory.log", { agent, path: path || null, limit }, { live: "memory" });
  const [shown, show] = useState(open || "");
  if (!value) return error ? html`<${ErrorNotice} error=${error} retry=${reload} />` : html`<${Loading} />`;
  const kinds = { created: t("memory.created"), changed: t("memory.edited"), deleted: t("memory.deleted") };
  return html`${path && html`<p class="crumbs"><a href=${at("/journal", { agent })}>${t("memory.journal")}</a> / <a dir="auto" href=${at("/file", { agent, path })}>${path}</a></p>`}
    ${value.versions.length === 0 && html`<${Empty}>${t("memory.noChanges")}<//>`}
    <ul class="items">${value.versions.map((one) => html`<li key=${one.name}><div class="row between">
      <div><a dir="auto" href=${at("/file", { agent, path: one.path })}>${one.path}</a><br />
        <small class="hint">${kinds[one.kind]} · <${Author} author=${one.author} /> · <${When} at=${one.at} /></small></div>
      <${Button} aria-expanded=${shown === one.name} onClick=${() => show(shown === one.name ? "" : one.name)}>${t("memory.showChange")}<//></div>
      ${shown === one.name && html`<${Change} agent=${agent} version=${one.name} undone=${one.undone} role=${role} done=${reload} />`}</li>`)}</ul>
    ${value.more && html`<${Button} onClick=${() => most(limit + 100)}>${t("memory.more")}<//>`}`;
}

function Change({ agent, version, undone, role, done }) {
  const { value, error } = useCall("memory.diff", { agent, version });
  const [wrong, tell] = useState(null);
  const [busy, work] = useState(false);
  async function undo() {
    work(true);
    try { await call("memory.undo", { agent, version }); tell(null); } catch (one) { tell(one); }
    await done();
    work(false);
  }
  if (!value) return error ? html`<${ErrorNotice} error=${error} />` : html`<${Loading} />`;
  return html`<${Diff} lines=${value.diff.slice(2)} />${wrong && html`<${ErrorNotice} error=${wrong} />`}
    ${role === "owner" && html`<${Button} busy=${busy} disabled=${undone} onClick=${undo}>${undone ? t("memory.undone") : t("memory.undo")}<//>`}`;
}

function Search({ agent, query, line }) {
  const [typed, type] = useState(query);
  const [place, ask] = useState(line);
  const [found, set] = useState(null);
  const [error, tell] = useState(null);
  const [busy, work] = useState(false);
  useEffect(() => {
    type(query);
    ask(line);
    if (!query) { set(null); return; }
    work(true);
    call("memory.explain", { agent, query, line: line || null }).then((value) => { set(value); tell(null); }, tell).finally(() => work(false));
  }, [agent, query, line]);
  const go = (event) => { event.preventDefault(); location.hash = at("/search", { agent, q: typed, line: place }); };
  const rank = (place, score) => place === null ? "–" : `#${place} (${number(score, { maximumFractionDigits: 3 })})`;
  return html`<form class="row bar" role="search" onSubmit=${go}>
      <${Field} label=${t("memory.question")} type="search" value=${typed} onInput=${type} required />
      <${Field} label=${t("memory.missing")} hint=${t("memory.missingHelp")} placeholder="memory/2026-01-31.md:12" value=${place} onInput=${ask} />
      <${Button} type="submit" kind="main" busy=${busy}>${t("chat.search")}<//></form>
    ${error && html`<${ErrorNotice} error=${error} />`}
    ${found && html`<div role="status" class="unseen">${t("memory.hits", { n: found.results.length })}</div>
      ${found.line && html`<${Notice} kind=${found.line.found ? "good" : "warn"}><b>${line}</b>: ${found.line.reason}<//>`}
      ${found.notes.map((one) => html`<${Notice} kind="info">${one}<//>`)}
      ${found.results.length === 0 && html`<${Empty}>${t("memory.noHits")}<//>`}
      <ol class="items">${found.results.map((one) => html`<li><a dir="auto" href=${one.source === "sessions" ? `#/sessions/${encodeURIComponent(one.path.replace(/^.*\/|\.jsonl$/g, ""))}` : at("/file", { agent, path: one.path })}>${one.path}:${one.startLine}–${one.endLine}</a>
        <pre class="snippet" dir="auto">${one.snippet}</pre></li>`)}</ol>
      <details open=${Boolean(line)}><summary>${t("memory.explain")}</summary>
        <p class="hint">${t("memory.explainHelp", { coverage: found.coverage, floor: found.floor })}</p>
        <${Table} rows=${found.candidates} empty=${t("memory.noHits")} columns=${[
          { key: "place", title: t("memory.rank"), cell: (one) => html`${one.place}${one.shown && html` <${Badge}>${t("memory.shown")}<//>`}` },
          { key: "path", title: t("memory.lines"), cell: (one) => html`<span dir="auto">${one.path}:${one.startLine}–${one.endLine}</span>` },
          { key: "score", title: t("memory.score"), cell: (one) => number(one.score, { maximumFractionDigits: 3 }) },
          { key: "words", title: t("memory.byWords"), cell: (one) => rank(one.keywordRank, one.keywordScore) },
          { key: "meaning", title: t("memory.byMeaning"), cell: (one) => rank(one.vectorRank, one.vectorScore) },
          { key: "date", title: t("memory.byDate"), cell: (one) => one.dateBonus ? `+${number(one.dateBonus, { maximumFractionDigits: 2 })}` : "–" },
        ]} /></details>`}`;
}
