// Schedule: jobs on a calendar and in a list, with their next instants in words, their runs, and what they cost.
import { call } from "../api.js";
import { currentRegion, t } from "../texts.js";
import { Badge, Button, Dialog, Empty, ErrorNotice, Field, html, Loading, Money, Notice, Page, Select, useCall, useEffect, useState, When } from "../ui.js";

const shift = (start, days) => new Date(Date.parse(`${start}T12:00:00Z`) + days * 86400000).toISOString().slice(0, 10);
const named = (date, options) => new Intl.DateTimeFormat(currentRegion(), { timeZone: "UTC", ...options }).format(new Date(`${date}T12:00:00Z`));
const clock = (at) => at.slice(11, 16);
// Times are those of the owner, whatever the zone of the browser.
const instant = (at) => `${named(at.slice(0, 10), { weekday: "short", day: "numeric", month: "short", ...(at.slice(0, 4) === local().slice(0, 4) ? {} : { year: "numeric" }) })}, ${clock(at)}`;
const monday = (date) => shift(date, -((new Date(`${date}T12:00:00Z`).getUTCDay() + 6) % 7));
const local = () => new Date(Date.now() - new Date().getTimezoneOffset() * 60000).toISOString().slice(0, 10);

export default function Schedule({ route, role, agents }) {
  const month = route.query.view === "month";
  const start = /^\d{4}-\d\d-\d\d$/.test(route.query.start) ? route.query.start : month ? `${local().slice(0, 7)}-01` : monday(local());
  const days = month ? new Date(Date.UTC(+start.slice(0, 4), +start.slice(5, 7), 0)).getUTCDate() : 7;
  const { value, error, reload } = useCall("jobs.calendar", { start, days }, { live: "jobs" });
  const [editing, edit] = useState(null);
  const [wrong, tell] = useState(null);
  const [said, say] = useState("");
  const go = (next, view = month ? "month" : "week") => `#/schedule?${new URLSearchParams({ view, start: next })}`;
  const before = month ? `${shift(start, -1).slice(0, 7)}-01` : shift(start, -7);
  async function act(name, args) {
    try { const done = await call(name, args); tell(null); say(done.told || ""); reload(); } catch (one) { tell(one); }
  }
  const add = role === "owner" && html`<${Button} kind="main" onClick=${() => edit({})}>${t("schedule.add")}<//>`;
  if (!value) return html`<${Page} title=${t("nav.schedule")}>${error ? html`<${ErrorNotice} error=${error} retry=${reload} />` : html`<${Loading} />`}<//>`;
  return html`<${Page} title=${t("nav.schedule")} actions=${add}>
    ${wrong && html`<${ErrorNotice} error=${wrong} />`}<p role="status" class=${said ? "notice told" : "unseen"} dir="auto">${said}</p>
    <div class="row bar"><a class="button" href=${go(before)}>${t("schedule.before")}</a>
      <h2 class="span" aria-live="polite">${month ? named(start, { month: "long", year: "numeric" }) : `${named(start, { day: "numeric", month: "short" })} – ${named(shift(start, 6), { day: "numeric", month: "short", year: "numeric" })}`}</h2>
      <a class="button" href=${go(shift(start, days))}>${t("schedule.after")}</a>
      <a class="button" href="#/schedule">${t("costs.today")}</a>
      <a class="button" href=${month ? go(monday(start), "week") : go(`${start.slice(0, 7)}-01`, "month")}>${month ? t("schedule.week") : t("schedule.month")}</a></div>
    <p class="hint">${t("schedule.zone", { zone: value.zone })}</p>
    <${Calendar} value=${value} days=${days} onOpen=${edit} role=${role} />
    <h2>${t("schedule.jobs")}</h2>
    ${value.more > 0 && html`<${Notice}>${t("schedule.moreJobs", { n: value.more })}<//>`}
    ${value.jobs.length === 0 ? html`<${Empty}>${t("schedule.none")}<//>` : html`<ul class="items">${value.jobs.map((job) => html`<${Job} key=${job.id} job=${job} cost=${value.costs[job.id]} runs=${value.runs.filter((one) => one.job === job.id).length} days=${value.costDays} role=${role} act=${act} edit=${edit} />`)}</ul>`}
    ${editing && html`<${Editor} job=${editing} agents=${agents} zone=${value.zone} close=${() => edit(null)} done=${(told) => { edit(null); say(told); reload(); }} />`}
  <//>`;
}

function Calendar({ value, days, onOpen, role }) {
  const jobs = Object.fromEntries(value.jobs.map((job) => [job.id, job]));
  const byDay = {};
  const put = (at, one) => (byDay[at.slice(0, 10)] ||= []).push({ at, ...one });
  value.runs.forEach((run) => put(run.instant, { job: jobs[run.job], run }));
  value.due.forEach((due) => put(due.at, { job: jobs[due.job] }));
  const all = Array.from({ length: days }, (_, index) => shift(value.start, index));
  const shown = all.filter((date) => byDay[date] || date === value.today);
  const came = { fired: t("schedule.fired"), skipped: t("schedule.skipped"), missed: t("schedule.missed") };
  const results = { done: t("schedule.done"), failed: t("chat.failed"), running: t("schedule.running"), waiting: t("health.is.waiting") };
  if (shown.length === 0) return html`<${Empty}>${t("schedule.nothingThen")}<//>`;
  return html`<ol class="calendar">${shown.map((date) => html`<li key=${date} class=${date === value.today ? "today" : ""}>
    <h3>${named(date, { weekday: "short", day: "numeric", month: "short" })}${date === value.today && html` <${Badge} kind="good">${t("costs.today")}<//>`}</h3>
    ${!byDay[date] ? html`<p class="hint">${t("schedule.nothingDue")}</p>` : html`<ul>${gathered(byDay[date]).map(({ at, job, run, times }) => html`<li class=${run ? "past" : ""}><time datetime=${at}>${clock(at)}</time> ${job && role === "owner"
      ? html`<button type="button" class="link" onClick=${() => onOpen(job)} dir="auto">${job.name}</button>` : html`<span dir="auto">${job?.name}</span>`}
      ${times > 1 && html` <small>${t("schedule.times", { n: times })}</small>`}${run && html` <${Badge} kind=${run.result === "failed" || run.state === "missed" ? "bad" : ""}>${results[run.result] || came[run.state]}<//>`}</li>`)}</ul>`}
  </li>`)}</ol>${value.oftener.length > 0 && html`<p class="hint">${t("schedule.oftener", { names: value.oftener.map((id) => jobs[id]?.name).join(", ") })}</p>`}`;
}

// A job that is due often stands once on its day, with how often.
function gathered(entries) {
  const found = new Map();
  for (const one of [...entries].sort((a, b) => (a.at < b.at ? -1 : 1))) {
    const key = `${one.job?.id}:${one.run ? one.run.result || one.run.state : ""}`;
    const known = found.get(key);
    if (known) known.times += 1;
    else found.set(key, { ...one, times: 1 });
  }
  return [...found.values()];
}

function Job({ job, cost, runs, days, role, act, edit }) {
  const [log, showLog] = useState(false);
  const [sure, ask] = useState(false);
  const states = { paused: t("schedule.paused"), done: t("schedule.ended") };
  return html`<li><h3 dir="auto">${job.name} <${Badge}>${job.kind === "task" ? t("schedule.task") : t("schedule.reminder")}<//>${states[job.state] && html` <${Badge} kind="warn">${states[job.state]}<//>`}
      ${job.untrusted.length > 0 && html` <${Badge} kind="warn">${t("memory.untrustedFrom", { sources: job.untrusted.join(", ") })}<//>`}</h3>
    <p dir="auto">${job.words}${job.reason && html` · ${job.reason}`}</p>
    <p class="hint">${job.next.length > 0 && html`${t("schedule.next")} ${job.next.map((one) => instant(one)).join(" · ")}. `}${job.lastAt && html`${t("schedule.last")} <${When} at=${job.lastAt} />. `}
      ${cost && html`${t("schedule.cost", { days, calls: cost.calls })} <b><${Money} usd=${cost.usd} /></b>. `}${t("schedule.goesTo", { to: job.to === "owner" ? t("schedule.you") : job.to === "none" ? t("schedule.nobody") : job.to, agent: job.agent })}</p>
    <div class="row">${role === "owner" && html`
      <${Button} onClick=${() => edit(job)}>${t("costs.change")}<//>
      <${Button} onClick=${() => act("jobs.run", { job: job.id, request: crypto.randomUUID?.() || String(Math.random()) })}>${t("schedule.run")}<//>
      ${job.state === "active" ? html`<${Button} onClick=${() => act("jobs.pause", { job: job.id })}>${t("health.pause")}<//>` : job.state === "paused" && html`<${Button} onClick=${() => act("jobs.resume", { job: job.id })}>${t("schedule.resume")}<//>`}
      <${Button} kind="danger" onClick=${() => ask(true)}>${t("approvals.remove")}<//>`}
      <${Button} aria-expanded=${log ? "true" : "false"} onClick=${() => showLog(!log)}>${t("health.log")}<//></div>
    ${log && html`<${Log} key=${`${job.lastAt}:${runs}`} job=${job.id} />`}
    ${sure && html`<${Dialog} title=${t("approvals.remove")} onClose=${() => ask(false)} actions=${html`<${Button} onClick=${() => ask(false)}>${t("shell.cancel")}<//><${Button} kind="danger" onClick=${() => { ask(false); act("jobs.remove", { job: job.id }); }}>${t("approvals.remove")}<//>`}><p>${t("schedule.removeSure", { name: job.name })}</p><//>`}
  </li>`;
}

function Log({ job }) {
  const { value, error } = useCall("jobs.log", { job });
  if (!value) return error ? html`<${ErrorNotice} error=${error} />` : html`<${Loading} />`;
  return value.lines.length === 0 ? html`<${Empty}>${t("schedule.noRuns")}<//>` : html`<ul class="log">${value.lines.map((line) => html`<li dir="auto">${line}</li>`)}</ul>`;
}

function Editor({ job, agents, zone, close, done }) {
  const old = Boolean(job.id);
  const [form, set] = useState({ when: "", text: job.text || "", name: job.name || "", kind: job.kind || "reminder", agent: job.agent || agents[0]?.id, to: job.to || "owner", session: job.session || "isolated", model: job.model || "", usd: job.usdPerDay ?? "" });
  const [meaning, mean] = useState(null);
  const [wrong, tell] = useState(null);
  const [busy, work] = useState(false);
  const change = (key) => (value) => set((now) => ({ ...now, [key]: value }));
  useEffect(() => {
    if (!form.when.trim()) return mean(null);
    let mine = true;
    const timer = setTimeout(() => call("jobs.preview", { when: form.when, agent: form.agent }).then((value) => mine && mean(value), () => mine && mean(null)), 300);
    return () => { mine = false; clearTimeout(timer); };
  }, [form.when, form.agent]);
  async function save(event) {
    event?.preventDefault();
    const task = form.kind === "task";
    const given = { text: form.text, kind: form.kind, to: form.to || "owner" };
    if (form.name.trim()) given.name = form.name;
    if (task) Object.assign(given, { session: form.session, model: form.model, daily_usd: form.usd === "" ? "" : Number(form.usd) });
    if (form.when.trim() || !old) given.when = form.when;
    work(true);
    try { done((await call(old ? "jobs.change" : "jobs.add", old ? { job: job.id, ...given } : { agent: form.agent, ...given })).told); } catch (one) { tell(one); } finally { work(false); }
  }
  return html`<${Dialog} title=${old ? t("schedule.changeOf", { name: job.name }) : t("schedule.add")} onClose=${close}
      actions=${html`<${Button} onClick=${close}>${t("shell.cancel")}<//><${Button} kind="main" busy=${busy} onClick=${save}>${t("memory.save")}<//>`}>
    <form onSubmit=${save}>${wrong && html`<${ErrorNotice} error=${wrong} />`}
      <${Field} label=${t("health.text")} rows="3" value=${form.text} onInput=${change("text")} required />
      <${Field} label=${old ? t("schedule.move") : t("context.when")} hint=${old ? t("schedule.moveHelp", { words: job.words }) : t("schedule.whenHelp")} value=${form.when} onInput=${change("when")} required=${!old} error=${meaning?.problem && `${meaning.problem}. ${meaning.hint}`} />
      <p role="status" class="hint" dir="auto">${meaning?.words && html`<b>${meaning.words}</b> (${zone}): ${meaning.next.map((one) => instant(one)).join(" · ")}`}</p>
      <${Select} label=${t("memory.kind")} value=${form.kind} onInput=${change("kind")} options=${[["reminder", t("schedule.reminderHelp")], ["task", t("schedule.taskHelp")]]} />
      ${!old && agents.length > 1 && html`<${Select} label=${t("costs.by.agent")} value=${form.agent} onInput=${change("agent")} options=${agents.map((one) => [one.id, one.name || one.id])} />`}
      <details><summary>${t("schedule.further")}</summary>
        <${Field} label=${t("chat.newName")} value=${form.name} onInput=${change("name")} />
        <${Field} label=${t("schedule.to")} hint=${t("schedule.toHelp")} value=${form.to} onInput=${change("to")} />
        ${form.kind === "task" && html`<${Select} label=${t("context.session")} value=${form.session} onInput=${change("session")} options=${[["isolated", t("schedule.isolated")], ["main", t("schedule.main")]]} />
          <${Field} label=${t("context.model")} value=${form.model} onInput=${change("model")} />
          <${Field} label=${t("schedule.usd")} type="number" min="0" step="0.01" value=${form.usd} onInput=${change("usd")} />`}</details>
      <button type="submit" class="unseen" tabindex="-1" aria-hidden="true">${t("memory.save")}</button></form><//>`;
}
