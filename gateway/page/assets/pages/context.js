// Context: what fills the window now and filled it before, the prompt of each call, and what the next memory flush would keep.
import { Bars, Meter, Badge, Button, Empty, ErrorNotice, html, Loading, Money, Notice, Page, Select, Table, Tabs, useCall, useState, When } from "../ui.js";
import { call } from "../api.js";
import { moment, number, t, time } from "../texts.js";

const KINDS = ["instructions and tools", "summary", "people", "answers", "tool results"];
const kindName = (kind) => t(`context.kind.${kind.replaceAll(" ", "-")}`);
const share = (part, whole) => number(whole ? part / whole : 0, { style: "percent", maximumFractionDigits: 0 });

export default function Context({ route, agents }) {
  const [tab, given] = route.parts;
  const agent = route.query.agent || agents[0]?.id;
  const sessions = useCall("sessions.list", { agent }, { live: "sessions" });
  const rows = sessions.value?.sessions;
  const session = route.query.session || rows?.find((one) => one.sessionKey === `agent:${agent}:main`)?.sessionKey || rows?.[0]?.sessionKey;
  const go = (name, more = {}) => `#/context/${name}?${new URLSearchParams({ agent, session: session || "", ...more })}`;
  const args = { agent, session };
  const choose = html`<div class="row">
    ${agents.length > 1 && html`<${Select} label=${t("costs.by.agent")} value=${agent} options=${agents.map((one) => [one.id, one.name || one.id])} onInput=${(id) => { location.hash = `#/context?agent=${encodeURIComponent(id)}`; }} />`}
    ${rows?.length > 0 && html`<${Select} label=${t("context.session")} value=${session} options=${rows.map((one) => [one.sessionKey, one.sessionKey])} onInput=${(key) => { location.hash = `#/context?${new URLSearchParams({ agent, session: key })}`; }} />`}</div>`;
  const shown = tab || "now";
  const View = { now: Now, history: History, flush: Flush, prompt: Prompt }[shown] || Now;
  return html`<${Page} title=${t("nav.context")}>${choose}
    <${Tabs} label=${t("nav.context")} chosen=${shown === "prompt" ? "history" : shown} tabs=${[["now", t("context.now"), go("now")], ["history", t("context.history"), go("history")], ["flush", t("context.flush"), go("flush")]]} />
    ${sessions.error ? html`<${ErrorNotice} error=${sessions.error} retry=${sessions.reload} />` : !rows ? html`<${Loading} />` : !session ? html`<${Empty}>${t("context.none")}<//>` : html`<${View} key=${session + (given || "")} args=${args} go=${go} given=${given && decodeURIComponent(given)} />`}<//>`;
}

function Got({ found, children }) {
  if (found.error && !found.value) return html`<${ErrorNotice} error=${found.error} retry=${found.reload} />`;
  return found.value ? children(found.value) : html`<${Loading} />`;
}

function Now({ args }) {
  const found = useCall("context", args, { live: ["sessions", "costs"] });
  return html`<${Got} found=${found}>${(value) => {
    const whole = value.parts.reduce((all, one) => all + one.tokens, 0);
    return html`<p class="big">${t("context.of", { tokens: value.tokens, window: value.window })}</p>
      <${Meter} value=${value.tokens} max=${value.window} marks=${[value.flush_at, value.compact_above]} label=${t("context.full", { share: share(value.tokens, value.window) })} />
      <p>${value.flush_obstacle ? t("context.noFlush", { why: value.flush_obstacle }) : t("context.flushAt", { at: value.flush_at })}${" "}${t("context.compactAbove", { at: value.compact_above })}
        ${value.turns_left !== null && !value.flush_obstacle ? ` ${t("context.turnsLeft", { n: value.turns_left })}` : ""}</p>
      ${value.too_small && html`<${Notice} kind="warn">${value.too_small}<//>`}${value.prefix && html`<p class="hint" dir="auto">${value.prefix}</p>`}
      <${Table} caption=${t("context.parts")} rows=${value.parts} rowKey=${(one) => one.name} columns=${[
        { key: "name", title: t("context.part"), cell: (one) => ([...KINDS, "tools", "instructions", "skills"].includes(one.name) ? kindName(one.name) : one.name) },
        { key: "tokens", title: t("context.tokens"), number: true, cell: (one) => number(one.tokens) },
        { key: "share", title: t("context.share"), number: true, cell: (one) => share(one.tokens, whole) },
        { key: "chars", title: t("context.chars"), number: true, cell: (one) => number(one.chars) },
      ]} /><p class="hint">${t("context.estimates")}</p>`;
  }}<//>`;
}

function History({ args, go }) {
  const found = useCall("context.history", args, { live: ["sessions", "costs"] });
  return html`<${Got} found=${found}>${(value) => {
    const bars = [];
    let marks = [];
    for (const one of value.points) {
      if (one.kind !== "call") { marks.push(one.kind); continue; }
      bars.push({ key: one.call, title: `${moment(one.at)} · ${t("context.tokensN", { n: one.tokens })}`, values: one.parts, marks, href: go(`prompt/${encodeURIComponent(encodeURIComponent(one.call))}`) });
      marks = [];
    }
    if (!bars.length) return html`<${Empty}>${t("context.noCalls")}<//>`;
    const most = Math.max(...value.points.map((one) => one.tokens || 0));
    const top = most > value.window / 3 ? Math.max(value.window, most) : most;
    return html`<${Bars} bars=${bars} top=${top} label=${t("context.chart", { n: bars.length })} kinds=${KINDS.map((one) => [one, kindName(one)])} lines=${[[value.flushAt, "flush-line"], [value.compactAbove, "compact-line"]]} />
      <ul class="legend">${["flush", "compaction", "pruning", "reset"].map((one) => html`<li key=${one}><span class=${`stroke ${one}`} aria-hidden="true"></span>${t(`context.mark.${one}`)}</li>`)}</ul>
      <${Table} caption=${t("context.history")} rows=${[...value.points].reverse()} rowKey=${(one) => one.call || one.entry + one.kind} columns=${[
        { key: "at", title: t("context.when"), cell: (one) => html`<${When} at=${one.at} />` },
        { key: "what", title: t("approvals.what"), cell: (one) => (one.kind === "call" ? html`<a href=${go(`prompt/${encodeURIComponent(encodeURIComponent(one.call))}`)}>${t("context.promptOf", { time: time(one.at) })}</a>` : html`<${Badge}>${t(`context.mark.${one.kind}`)}<//> ${one.told}`) },
        { key: "tokens", title: t("context.tokens"), number: true, cell: (one) => (one.kind === "call" ? number(one.tokens) : one.before === null ? "" : `${number(one.before)} → ${number(one.after)}`) },
        { key: "cached", title: t("context.cached"), number: true, cell: (one) => (one.kind === "call" ? share(one.cacheRead, one.tokens) : "") },
        { key: "model", title: t("context.model"), cell: (one) => one.model || "" },
        { key: "cost", title: t("context.cost"), number: true, cell: (one) => (one.kind === "call" ? html`<${Money} usd=${one.cost} />` : "") },
      ]} />`;
  }}<//>`;
}

function Prompt({ args, given, go }) {
  const found = useCall("context.prompt", { ...args, call: given });
  const [more, add] = useState([]);
  const [failed, fail] = useState(null);
  return html`<p><a href=${go("history")}>${t("context.back")}</a></p><${Got} found=${found}>${(value) => {
    const parts = [...value.parts, ...more];
    const next = () => call("context.prompt", { ...args, call: given, offset: parts.length }).then((page) => add([...more, ...page.parts]), fail);
    return html`<h2>${t("context.promptAt", { at: moment(value.at), model: value.model })}</h2>
      <p>${value.tokens === null ? "" : t("context.promptSize", { tokens: value.tokens, read: value.cacheRead })}</p>
      <${Notice} kind=${value.exact === "yes" ? "good" : "warn"}>${t(`context.exact.${value.exact}`)}${value.gone.length > 0 ? ` ${t("context.gone", { names: value.gone.join(", ") })}` : ""}<//>
      <div class="parts">${parts.map((one) => html`<${Part} key=${one.n} part=${one} args=${{ ...args, call: given }} />`)}</div>
      <${ErrorNotice} error=${failed} />
      ${parts.length < value.count && html`<${Button} onClick=${next}>${t("context.more", { n: value.count - parts.length })}<//>`}`;
  }}<//>`;
}

function Part({ part, args }) {
  const [open, setOpen] = useState(false);
  const [whole, setWhole] = useState(null);
  const [failed, fail] = useState(null);
  const text = whole ?? part.text;
  return html`<details class=${part.cached === "read" ? "cached" : ""} onToggle=${(event) => setOpen(event.target.open)}>
    <summary><strong>${part.kind === "instructions" || part.kind === "tools" ? part.name : `${part.n + 1}. ${kindName(part.kind)}`}</strong>${" "}
      <span class="soft">${t("context.tokensN", { n: part.tokens })}${part.at ? ` · ${moment(part.at)}` : ""}</span>${" "}
      ${part.cached === "read" && html`<${Badge} kind="good">${t("context.wasCached")}<//>`}${" "}${part.exact === "changed" && html`<${Badge} kind="warn">${t("context.changed")}<//>`}${" "}
      ${part.pictures > 0 && html`<${Badge}>${t("context.pictures", { n: part.pictures })}<//>`}</summary>
    ${open && html`<pre class="wrap" tabindex="0" dir="auto">${text || t("context.empty")}</pre>${text.length < part.chars && html`<${Button} onClick=${() => call("context.prompt", { ...args, part: part.n }).then((page) => setWhole(page.parts[0].text), fail)}>${t("context.whole", { n: part.chars })}<//>`}<${ErrorNotice} error=${failed} />`}
  </details>`;
}

function Flush({ args }) {
  const found = useCall("context.flush", args, { live: ["sessions", "memory", "chat.said"] });
  return html`<${Got} found=${found}>${(value) => html`
    <p>${value.obstacle ? t("context.keepsNothing", { why: value.obstacle }) : t("context.keeps", { note: value.note })}</p>
    <p>${t("context.due", { at: value.flushAt, tokens: value.tokens })}${value.last ? html` ${t("context.lastFlush")} <${When} at=${value.last} /> (${value.lastOutcome}).` : ""}</p>
    <h2>${t("context.byRule")}</h2><p class="hint">${t("context.byRuleHint")}</p>
    ${value.byRule.length === 0 ? html`<${Empty}>${t("context.nothingNew")}<//>` : value.byRule.map((one) => html`<section class="card" key=${one.note + one.taint}><h3>${one.note} ${one.taint.length > 0 && html`<${Badge} kind="warn">${t("context.untrusted", { from: one.taint.join(", ") })}<//>`}</h3><ul>${one.sentences.map((text, n) => html`<li key=${n} dir="auto">${text}</li>`)}</ul></section>`)}
    <h2>${t("context.request")}</h2><pre class="wrap" tabindex="0" dir="auto">${value.request}</pre>`}<//>`;
}
