// Health: channels, queue, what was not sent, the log, what the doctor finds and mends, backups and the version.
import { Badge, Button, Dialog, Empty, ErrorNotice, Field, html, Loading, Notice, Page, Select, Table, useCall, useEffect, useRef, useState, When } from "../ui.js";
import { call } from "../api.js";
import { onLive } from "../live.js";
import { bytes, moment, t } from "../texts.js";

const STATES = ["starting", "connected", "restarting", "broken", "silent", "waiting", "claimed"];
const GOOD = ["connected", "running", "up", "live", "ready"];

export default function Health({ role }) {
  const status = useCall("status", {}, { live: ["health", "channels", "outbox"] });
  const outbox = useCall("outbox.list", {}, { live: ["health", "outbox"] });
  const held = useCall("outbox.held", {}, { live: ["health", "outbox"] });
  const queue = useCall("inbox.list", {}, { live: ["health", "inbox"] });
  const missed = useCall("inbox.missed", {}, { live: ["health", "inbox"] });
  const [failed, fail] = useState(null);
  const [said, say] = useState("");
  const act = async (name, args, told) => {
    try { await call(name, args); fail(null); say(told); [status, outbox, held, queue, missed].forEach((one) => one.reload()); } catch (error) { fail(error); }
  };
  const owner = role === "owner";
  const value = status.value;
  return html`<${Page} title=${t("nav.health")}><${ErrorNotice} error=${failed || status.error} retry=${status.error ? status.reload : undefined} /><p role="status" class=${said ? "notice good" : "unseen"}>${said}</p>
    ${!value ? !status.error && html`<${Loading} />` : html`<${State} value=${value} act=${act} owner=${owner} />`}
    <h2>${t("health.outbox")}</h2><${ErrorNotice} error=${outbox.error} retry=${outbox.reload} />
    ${outbox.value && html`<${Outbox} rows=${outbox.value.outbox} act=${act} owner=${owner} />`}
    ${held.value?.held.length > 0 && html`<h2>${t("health.held")}</h2><${Table} caption=${t("health.held")} rows=${held.value.held} rowKey=${(one) => one.id} columns=${[
      { key: "text", title: t("health.text") }, { key: "name", title: t("health.from") }, { key: "conversation", title: t("approvals.to") }, { key: "since", title: t("health.since"), cell: (one) => html`<${When} at=${one.since} />` },
      ...(owner ? [{ key: "do", title: t("health.action"), cell: (one) => html`<${Button} label=${t("health.sendOne", { n: one.id })} onClick=${() => act("outbox.send", { row: one.id }, t("health.queued"))}>${t("health.send")}<//>` }] : []),
    ]} />`}
    <h2>${t("health.queue")}</h2>${queue.value && html`<${Table} caption=${t("health.queue")} empty=${t("health.noQueue")} rows=${queue.value.inbox} rowKey=${(one) => one.id} columns=${heard()} />`}
    ${missed.value?.inbox.length > 0 && html`<details><summary>${t("health.missed", { n: missed.value.inbox.length })}</summary><${Table} caption=${t("health.missedTitle")} rows=${missed.value.inbox} rowKey=${(one) => one.id} columns=${[...heard(), { key: "reason", title: t("health.reason") }]} /></details>`}
    <${Doctor} owner=${owner} /><${Log} /><//>`;
}

const heard = () => [{ key: "text", title: t("health.text") }, { key: "conversation", title: t("health.from") }, { key: "at", title: t("health.since"), cell: (one) => html`<${When} at=${one.receivedAt} />` }, { key: "state", title: t("health.state"), cell: (one) => stateName(one.state) }];
const stateName = (state) => (STATES.includes(state) ? t(`health.is.${state}`) : state);

function State({ value, act, owner }) {
  const channels = Object.entries(value.channels).map(([name, one]) => ({ name, ...one }));
  const backup = value.backup || {};
  return html`${value.paused.map((cause) => html`<${Notice} key=${cause} kind="warn"><p>${cause}</p>${owner && html`<${Button} onClick=${() => act("resume", {}, t("health.resumed"))}>${t("health.resume")}<//>`}<//>`)}
    ${value.settings?.complaint && html`<${Notice} kind="error">${value.settings.complaint}<//>`}${value.notices.map((text) => html`<${Notice} key=${text} kind="warn"><span dir="auto">${text}</span><//>`)}
    <dl class="tiles"><div><dt>${t("health.version")}</dt><dd>Homebody ${value.version}</dd></div>
      <div><dt>${t("health.running")}</dt><dd>${t("health.turns", { turns: value.turns.running, waiting: value.inbox.waiting })}</dd></div>
      ${value.turns.suspended > 0 && html`<div><dt>${t("health.suspended")}</dt><dd><a href="#/approvals">${value.turns.suspended}</a></dd></div>`}
      <div><dt>${t("health.backup")}</dt><dd>${backup.newest ? html`<${When} at=${backup.newest} /> · ${bytes(backup.bytes)}` : t("health.noBackup")} ${backup.failed && html`<${Badge} kind="bad">${t("chat.failed")}<//> <span class="error">${backup.failed}</span>`}</dd></div></dl>
    <h2>${t("health.channels")}</h2><${Table} caption=${t("health.channels")} empty=${t("health.noChannels")} rows=${channels} rowKey=${(one) => one.name} columns=${[
      { key: "name", title: t("health.channel") },
      { key: "state", title: t("health.state"), cell: (one) => html`<${Badge} kind=${one.trouble ? "bad" : GOOD.includes(one.state) ? "good" : ""}>${stateName(one.state)}<//>${[one.trouble, one.mend, one.sending].filter(Boolean).map((text) => html`<div key=${text} class="error" dir="auto">${text}</div>`)}` },
      { key: "heard", title: t("health.heard"), cell: (one) => html`<${When} at=${one.heard} />` },
      ...(owner ? [{ key: "do", title: t("health.action"), cell: (one) => !one.name.startsWith("terminal") && !one.name.startsWith("web") && html`<${Button} label=${t("health.restartOne", { name: one.name })} onClick=${() => act("channels.restart", { name: one.name }, t("health.restarted", { name: one.name }))}>${t("health.restart")}<//>` }] : []),
    ]} />`;
}

function Outbox({ rows, act, owner }) {
  const dead = rows.filter((one) => one.state === "dead");
  const columns = [
    { key: "text", title: t("health.text") }, { key: "conversation", title: t("approvals.to") },
    { key: "state", title: t("health.state"), cell: (one) => html`<${Badge} kind=${one.state === "dead" ? "bad" : ""}>${t(`health.out.${one.state}`)}<//> ${one.reason || one.waits || ""}` },
  ];
  if (owner) columns.push({ key: "do", title: t("health.action"), cell: (one) => html`<div class="row">${one.state === "dead" ? html`<${Button} label=${t("health.afterAllOne", { n: one.id })} onClick=${() => act("outbox.retry", { row: one.id }, t("health.queued"))}>${t("health.afterAll")}<//><${Forget} row=${one} act=${act} />` : html`<${Button} label=${t("health.dropOne", { n: one.id })} onClick=${() => act("outbox.drop", { row: one.id }, t("health.dropped"))}>${t("health.drop")}<//>`}</div>` });
  const all = async () => { for (const one of dead) await act("outbox.retry", { row: one.id }, t("health.queued")); };
  return html`${owner && dead.length > 1 && html`<p><${Button} onClick=${all}>${t("health.allAfterAll", { n: dead.length })}<//></p>`}<${Table} caption=${t("health.outbox")} empty=${t("health.allSent")} rows=${rows} rowKey=${(one) => one.id} columns=${columns} />`;
}

function Forget({ row, act }) {
  const [asked, ask] = useState(false);
  return html`<${Button} label=${t("health.forgetOne", { n: row.id })} onClick=${() => ask(true)}>${t("health.forget")}<//>${asked && html`<${Dialog} title=${t("health.forgetOne", { n: row.id })} onClose=${() => ask(false)} actions=${html`<${Button} onClick=${() => ask(false)}>${t("shell.cancel")}<//><${Button} kind="danger" onClick=${() => { ask(false); act("outbox.forget", { row: row.id }, t("health.forgotten")); }}>${t("health.forget")}<//>`}><p>${t("health.forgetAbout")}</p><blockquote dir="auto">${row.text}</blockquote><//>`}`;
}

function Doctor({ owner }) {
  const [found, show] = useState(null);
  const [busy, work] = useState("");
  const [failed, fail] = useState(null);
  const [done, say] = useState("");
  const look = async (offline) => {
    work(offline ? "look" : "online"); fail(null); say("");
    try { show(await call("doctor.findings", { offline })); } catch (error) { fail(error); }
    work("");
  };
  const mend = async (one) => {
    work(one.id); fail(null);
    try {
      const came = await call("doctor.mend", { finding: one.id });
      say(came.mended.map((each) => each.done || each.failed).join(" "));
      show({ ...found, findings: [...found.findings.filter((each) => each.check !== one.check), ...came.findings.filter((each) => each.check === one.check)] });
    } catch (error) { fail(error); }
    work("");
  };
  const levels = ["error", "warning", "note"];
  const listed = found?.findings.filter((one) => one.level !== "ok").sort((one, other) => levels.indexOf(one.level) - levels.indexOf(other.level));
  return html`<h2>${t("health.doctor")}</h2><p class="row"><${Button} busy=${busy === "look"} onClick=${() => look(true)}>${t("health.look")}<//>${owner && html`<${Button} busy=${busy === "online"} onClick=${() => look(false)}>${t("health.lookOnline")}<//>`}</p><p class="hint">${t("health.lookHint")}</p>
    <${ErrorNotice} error=${failed} /><p role="status" class=${done ? "notice good" : "unseen"} dir="auto">${done || (busy ? t("shell.loading") : "")}</p>
    ${listed && (listed.length === 0 ? html`<${Notice} kind="good">${t("health.well", { n: found.findings.length })}<//>` : html`<ul class="findings">${listed.map((one) => html`<li class="card gap" key=${one.id}><h3><${Badge} kind=${one.level === "error" ? "bad" : one.level === "warning" ? "warn" : ""}>${t(`health.level.${one.level}`)}<//> ${one.check}</h3>
      <p dir="auto">${one.what}${one.where ? html` <span class="mono soft">${one.where}</span>` : ""}</p>${one.why && html`<p class="soft" dir="auto">${one.why}</p>`}${one.mend && html`<p dir="auto">${t("health.mendBy")} <code>${one.mend}</code></p>`}
      ${one.fixable && owner && html`<${Button} busy=${busy === one.id} onClick=${() => mend(one)} label=${t("health.mendOne", { what: one.what.slice(0, 80) })}>${t("health.mend")}<//>`}</li>`)}</ul>`)}`;
}

const MOST = 500;

function Log() {
  const [level, choose] = useState("info");
  const [search, type] = useState("");
  const [session, within] = useState("");
  const [state, change] = useState({ lines: [] });
  const [paused, pause] = useState(false);
  const place = useRef("");
  const box = useRef();
  const wanted = { level, search, session };
  useEffect(() => {
    let mine = true, wanting = false, reading = false;
    place.current = "";
    const read = async () => {
      wanting = true;
      if (reading) return;
      reading = true;
      while (mine && wanting) {
        wanting = false;
        try {
          const follows = !place.current;
          const found = await call("logs.read", { ...wanted, place: place.current });
          if (!mine) return;
          place.current = found.place;
          change((before) => ({ file: found.file, gap: found.gap, lines: follows ? found.lines : [...before.lines, ...found.lines].slice(-MOST) }));
        } catch (error) { if (mine) change((before) => ({ ...before, error })); }
      }
      reading = false;
    };
    const first = setTimeout(read, 250);
    const end = paused ? () => {} : onLive("logs", read);
    return () => { mine = false; clearTimeout(first); end(); };
  }, [level, search, session, paused]);
  useEffect(() => { if (!paused && box.current) box.current.scrollTop = box.current.scrollHeight; }, [state.lines]);
  return html`<h2>${t("health.log")}</h2><div class="row bar">
      <${Select} label=${t("health.levelLabel")} value=${level} options=${["debug", "info", "warning", "error"].map((one) => [one, t(`health.level.${one}`)])} onInput=${choose} />
      <${Field} label=${t("health.search")} type="search" value=${search} onInput=${type} /><${Field} label=${t("context.session")} value=${session} onInput=${within} />
      <${Button} onClick=${() => pause(!paused)} aria-pressed=${paused ? "true" : "false"}>${paused ? t("health.follow") : t("health.pause")}<//></div>
    <${ErrorNotice} error=${state.error} />${state.gap && html`<p class="hint">${t("health.gap")}</p>`}
    ${state.lines.length === 0 ? html`<${Empty}>${t("health.noLines")}<//>` : html`<div class="log" ref=${box} tabindex="0" role="log" aria-live="off" aria-label=${t("health.log")}>${state.lines.map((one, n) => html`<div key=${n} class=${`line ${one.level || ""}`}>${one.text ? one.text : html`<time datetime=${one.at}>${one.at ? moment(one.at) : ""}</time> <b>${one.level}</b> <span dir="auto">${one.event}</span>${Object.entries(one.more || {}).map(([name, text]) => html` <span key=${name} class="soft">${name}=${text}</span>`)}${one.session && html` <span class="soft">[${one.session}]</span>`}${one.exception && html`<pre>${one.exception}</pre>`}`}</div>`)}</div>`}<p class="hint mono wrap">${state.file}</p>`;
}
