// Settings: a form of all keys, what differs before it is written, and what takes effect now or after a restart. Secrets are only written.
import { call } from "../api.js";
import { t } from "../texts.js";
import { Badge, Button, Dialog, Diff, ErrorNotice, Field, html, Loading, Notice, Page, Select, useCall, useEffect, useState } from "../ui.js";

// What was changed and not written, by key: it outlives a change of section. Secrets are not kept beyond the page.
let unwritten = {};

export default function Settings({ route, role }) {
  const section = route.parts[0] || null;
  const { value, error, reload } = useCall("settings.form", { section }, { live: "settings" });
  const [changes, set] = useState(unwritten);
  const [shown, show] = useState(null);
  const [problems, tell] = useState([]);
  const [wrong, fail] = useState(null);
  const [busy, work] = useState(false);
  const [said, say] = useState(null);
  const [wanted, filter] = useState("");
  const count = Object.keys(changes).length;
  useEffect(() => {
    const ask = (event) => event.preventDefault();
    if (count) addEventListener("beforeunload", ask);
    return () => removeEventListener("beforeunload", ask);
  }, [count > 0]);

  function change(key, next) {
    say(null);
    unwritten = { ...unwritten };
    if (next === undefined) delete unwritten[key]; else unwritten[key] = next;
    set(unwritten);
    tell(problems.filter((one) => one.key !== key));
  }
  const list = () => Object.entries(changes).map(([key, next]) => ({ key, value: next }));
  async function review() {
    work(true);
    try {
      const found = await call("settings.preview", { changes: list() });
      tell(found.problems);
      fail(null);
      if (found.problems.length === 0) show(found);
      else setTimeout(() => document.querySelector(".key [aria-invalid]")?.focus(), 50);
    } catch (one) { fail(one); } finally { work(false); }
  }
  async function write() {
    work(true);
    try {
      const done = await call("settings.write", { changes: list(), expected: shown.hash });
      if (done.changed) { show({ ...(await call("settings.preview", { changes: list() })), meanwhile: true }); return; }
      show(null);
      tell(done.problems || []);
      if (done.written) { unwritten = {}; set(unwritten); say(done); }
      reload();
    } catch (one) { show(null); fail(one); } finally { work(false); }
  }

  if (!value) return html`<${Page} title=${t("nav.settings")}>${error ? html`<${ErrorNotice} error=${error} retry=${reload} />` : html`<${Loading} />`}<//>`;
  const all = [...problems, ...value.problems];
  const known = new Set(value.groups.flatMap((group) => group.fields.map((one) => one.key)));
  const elsewhere = all.filter((one) => !known.has(one.key));
  const groups = wanted ? value.groups.map((group) => ({ ...group, fields: group.fields.filter((one) => `${one.key} ${one.doc}`.toLowerCase().includes(wanted.toLowerCase())) })).filter((group) => group.fields.length) : value.groups;
  return html`<${Page} title=${t("nav.settings")}>
    <p class="hint" dir="auto">${t("settings.file", { file: value.file })}</p>
    ${value.complaint && html`<${Notice} kind="error">${value.complaint}<//>`}
    ${value.waiting.length > 0 && html`<${Notice} kind="warn">${t("settings.waiting", { keys: value.waiting.join(", ") })}<//>`}
    ${wrong && html`<${ErrorNotice} error=${wrong} />`}
    ${elsewhere.length > 0 && html`<${Notice} kind="error"><ul>${elsewhere.map((one) => html`<li dir="auto"><code>${one.key || one.path}</code>: ${one.message}${one.mend && ` (${one.mend})`}</li>`)}</ul><//>`}
    ${said && html`<${Notice} kind="good">${t("settings.written")} ${said.gateway.taken?.length > 0 && t("settings.taken", { keys: said.gateway.taken.join(", ") })} ${said.gateway.waiting?.length > 0 && t("settings.waiting", { keys: said.gateway.waiting.join(", ") })}<//>`}
    ${!section ? html`<ul class="items">${value.sections.map((one) => html`<li key=${one.name} class="row between"><span><a href=${`#/settings/${one.name}`}>${one.name === "general" ? t("settings.general") : one.name}</a><br /><small class="hint">${one.doc || t("settings.generalHelp")}</small></span>
        <span>${one.problems > 0 && html`<${Badge} kind="bad">${t("settings.problems", { n: one.problems })}<//> `}${one.set && html`<${Badge} kind="good">${t("settings.set")}<//>`}</span></li>`)}</ul>` : html`
    <p class="crumbs"><a href="#/settings">${t("settings.all")}</a></p>
    <div class="row bar"><${Select} label=${t("settings.section")} value=${value.section} onInput=${(name) => { location.hash = `#/settings/${name}`; }}
        options=${value.sections.map((one) => [one.name, `${one.name === "general" ? t("settings.general") : one.name}${one.problems ? " ⚠" : one.set ? " •" : ""}`])} />
      <${Field} label=${t("settings.filter")} type="search" value=${wanted} onInput=${filter} /></div>
    <p class="hint">${value.sections.find((one) => one.name === value.section)?.doc}</p>
    ${groups.map((group, index) => html`<${Group} key=${group.path} group=${group} open=${index === 0 || Boolean(wanted)} changes=${changes} change=${change} problems=${all} role=${role} />`)}`}
    ${role === "owner" && html`<${AnyKey} change=${change} />`}
    ${count > 0 && html`<div class="row sticky" role="region" aria-label=${t("settings.changes")}><span>${t("settings.changed", { n: count })}</span>
      <${Button} onClick=${() => { unwritten = {}; set(unwritten); tell([]); }}>${t("settings.discard")}<//><${Button} kind="main" busy=${busy} onClick=${review}>${t("settings.review")}<//></div>`}
    ${shown && html`<${Dialog} wide title=${t("settings.review")} onClose=${() => show(null)} actions=${html`<${Button} onClick=${() => show(null)}>${t("shell.cancel")}<//><${Button} kind="main" busy=${busy} onClick=${write}>${t("settings.write")}<//>`}>
      ${shown.meanwhile && html`<${Notice} kind="warn">${t("settings.meanwhile")}<//>`}
      ${shown.diff.length ? html`<${Diff} lines=${shown.diff} />` : html`<p>${t("settings.same")}</p>`}
      ${shown.hot.length > 0 && html`<p>${t("settings.hotKeys", { keys: shown.hot.join(", ") })}</p>`}${shown.restart.length > 0 && html`<p>${t("settings.restartKeys", { keys: shown.restart.join(", ") })}</p>`}
      ${shown.warnings.length > 0 && html`<ul class="hint">${shown.warnings.map((one) => html`<li dir="auto">${one.key || one.file}: ${one.message}</li>`)}</ul>`}<//>`}
  <//>`;
}

function Group({ group, open, changes, change, problems, role }) {
  const marked = group.fields.filter((one) => one.set || one.key in changes).length;
  const bad = group.fields.some((one) => problems.some((problem) => problem.key === one.key));
  const gone = group.path in changes && changes[group.path] === null;
  return html`<details class="group" open=${open || bad}><summary><code>${group.path || t("settings.general")}</code>${marked > 0 && html` <${Badge}>${t("settings.setCount", { n: marked })}<//>`}${group.adds && html` <${Badge}>${t("settings.entries", { n: group.count })}<//>`}</summary>
    <p class="hint">${group.doc}</p>
    ${group.entry && role === "owner" && html`<${Button} kind="danger" onClick=${() => change(group.path, gone ? undefined : null)}>${gone ? t("settings.keepEntry") : t("settings.removeEntry", { entry: group.path })}<//>`}
    ${group.adds && role === "owner" && html`<${Add} group=${group} change=${change} />`}
    ${group.fields.map((one) => html`<${Key} key=${one.key} one=${one} now=${changes[one.key]} typed=${one.key in changes} change=${(next) => change(one.key, next)} problem=${problems.find((problem) => problem.key === one.key)} role=${role} />`)}</details>`;
}

function Key({ one, now, typed, change, problem, role }) {
  const value = typed ? now ?? "" : one.value ?? "";
  const error = problem && `${problem.message}${problem.mend ? ` (${problem.mend})` : ""}`;
  const help = [one.doc, one.default && t("settings.default", { value: one.default }), one.kind === "values" && t("settings.asYaml", { type: one.type }), one.hidden && t("settings.hidden")].filter(Boolean).join(" ");
  const put = (next) => change(next === (one.value ?? "") ? undefined : next === "" ? (one.set ? null : undefined) : next);
  const shared = { label: one.name, hint: error ? undefined : help, value, disabled: role !== "owner" };
  const unset = t("settings.unset");
  return html`<div class="key">${one.kind === "choice" || one.kind === "switch"
      ? html`<${Select} ...${shared} hint=${error || help} aria-invalid=${error ? "true" : undefined} onInput=${put} options=${[["", unset], ...(one.kind === "switch" ? [["true", t("approvals.yes")], ["false", t("approvals.no")]] : one.choices.map((name) => [name, name]))]} />`
      : html`<${Field} ...${shared} error=${error} onInput=${put} rows=${one.kind === "values" && value.length > 60 ? 3 : undefined} spellcheck=${one.kind === "secret" ? "false" : undefined} class=${one.kind === "secret" ? "secret" : undefined} autocomplete="off"
          inputmode=${one.kind === "whole" ? "numeric" : one.kind === "number" ? "decimal" : undefined} spellcheck="false" placeholder=${one.hidden ? "••••••••" : one.default} />`}
    <p class="marks"><${Badge} kind=${one.reload === "hot" ? "good" : ""}>${one.reload === "hot" ? t("settings.now") : t("settings.restart")}<//>${typed && html` <${Badge} kind="warn">${now === null ? t("settings.willUnset") : t("memory.edited")}<//>`}
      ${one.set && !typed && html` <${Badge}>${t("settings.set")}<//>`}
      ${role === "owner" && typed && html` <${Button} kind="bare" onClick=${() => change(undefined)}>${t("settings.undo")}${about(one.key)}<//>`}
      ${role === "owner" && one.set && !typed && html` <${Button} kind="bare" onClick=${() => change(null)}>${t("settings.useDefault")}${about(one.key)}<//>`}</p></div>`;
}

const about = (key) => html`<span class="unseen"> ${key}</span>`;

function Add({ group, change }) {
  const [name, call_] = useState("");
  const [value, type] = useState("");
  const key = group.adds === "list" ? `${group.path}[${group.count}]` : `${group.path}${/^[^.[\]"]+$/.test(name) ? `.${name}` : `[${JSON.stringify(name)}]`}`;
  const add = (event) => { event.preventDefault(); change(key, value || "{}"); call_(""); type(""); };
  return html`<form class="row bar" onSubmit=${add}>${group.adds === "table" && html`<${Field} label=${t("settings.entryName")} value=${name} onInput=${call_} required />`}
    <${Field} label=${t("settings.entryValue")} hint=${t("settings.entryHelp")} value=${value} onInput=${type} placeholder="{key: value}" spellcheck="false" />
    <${Button} type="submit">${t("settings.addEntry")}<//></form>`;
}

function AnyKey({ change }) {
  const [key, name] = useState("");
  const [value, type] = useState("");
  const go = (event) => { event.preventDefault(); change(key.trim(), value === "" ? null : value); name(""); type(""); };
  return html`<details class="group"><summary>${t("settings.anyKey")}</summary><p class="hint">${t("settings.anyKeyHelp")}</p><form class="row bar" onSubmit=${go}>
    <${Field} label=${t("settings.key")} value=${key} onInput=${name} required placeholder="agents.list[0].name" spellcheck="false" />
    <${Field} label=${t("settings.value")} hint=${t("settings.valueHelp")} value=${value} onInput=${type} spellcheck="false" /><${Button} type="submit">${t("settings.note")}<//></form></details>`;
}
