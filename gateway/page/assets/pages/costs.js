// Costs: by day, agent, model and origin; today's budgets, and raising one; what a longer cache would save.
import { Bars, Meter, Badge, Button, Dialog, Diff, Empty, ErrorNotice, Field, html, Loading, Money, Notice, Page, Select, Table, useCall, useState } from "../ui.js";
import { call } from "../api.js";
import { day, money, number, t } from "../texts.js";

const percent = (share) => number(share, { style: "percent", maximumFractionDigits: 0 });
const amount = (value, unit) => (unit === "usd" ? money(value) : t("context.tokensN", { n: value }));

export default function Costs({ route, role }) {
  const days = Number(route.query.days) || 30;
  const by = ["model", "origin", "agent"].includes(route.query.by) ? route.query.by : "model";
  const go = (more) => { location.hash = `#/costs?${new URLSearchParams({ days, by, ...more })}`; };
  const { value, error, reload } = useCall("costs", { days }, { live: "costs" });
  return html`<${Page} title=${t("nav.costs")}><div class="row">
      <${Select} label=${t("costs.days")} value=${String(days)} options=${["1", "7", "30", "90", "365"].map((one) => [one, one === "1" ? t("costs.today") : t("costs.daysN", { n: Number(one) })])} onInput=${(one) => go({ days: one })} />
      <${Select} label=${t("costs.by")} value=${by} options=${["model", "origin", "agent"].map((one) => [one, t(`costs.by.${one}`)])} onInput=${(one) => go({ by: one })} /></div>
    <${ErrorNotice} error=${error} retry=${reload} />${!value ? !error && html`<${Loading} />` : html`<${Spent} value=${value} by=${by} days=${days} />`}
    <${Budgets} role=${role} /><${Longer} days=${days} /><//>`;
}

function Spent({ value, by, days }) {
  const rows = by === "origin" ? value.origins : value.models;
  if (!rows.length) return html`<${Empty}>${t("costs.none")}<//>`;
  const name = (row) => (by === "origin" ? t(`costs.origin.${row.origin || "upkeep"}`) : row[by] || t("costs.origin.upkeep"));
  const kinds = new Map();
  const perDay = new Map();
  for (const row of rows) {
    const kind = kinds.get(name(row)) || { name: name(row), calls: 0, cost: 0, sent: 0, read: 0, output: 0, unsure: 0 };
    kind.calls += row.calls; kind.cost += row.cost; kind.output += row.output; kind.read += row.cacheRead; kind.sent += row.input + row.cacheRead + row.cacheWrite; kind.unsure += row.estimated + row.unpriced;
    kinds.set(kind.name, kind);
    const values = perDay.get(row.day) || {};
    values[kind.name] = (values[kind.name] || 0) + row.cost;
    perDay.set(row.day, values);
  }
  const listed = [...kinds.values()].sort((one, other) => other.cost - one.cost);
  const bars = [];
  for (let date = new Date(`${value.since}T12:00:00Z`); date.toISOString().slice(0, 10) <= value.today; date.setUTCDate(date.getUTCDate() + 1)) {
    const day = date.toISOString().slice(0, 10);
    const values = perDay.get(day) || {};
    bars.push({ key: day, title: `${day}: ${money(Object.values(values).reduce((all, one) => all + one, 0))}`, values });
  }
  const sent = listed.reduce((all, one) => all + one.sent, 0), read = listed.reduce((all, one) => all + one.read, 0);
  const figures = [
    { key: "calls", title: t("costs.calls"), number: true, cell: (one) => number(one.calls) },
    { key: "sent", title: t("costs.sent"), number: true, cell: (one) => number(one.sent) },
    { key: "output", title: t("costs.answered"), number: true, cell: (one) => number(one.output) },
    { key: "read", title: t("context.cached"), number: true, cell: (one) => percent(one.sent ? one.read / one.sent : 0) },
    { key: "cost", title: t("context.cost"), number: true, cell: (one) => html`${one.unsure ? "~ " : ""}<${Money} usd=${one.cost} />` },
  ];
  return html`<p class="big">${money(value.total.cost)}</p><p>${t("costs.total", { calls: value.total.calls, days, cached: percent(sent ? read / sent : 0) })}</p>
    ${bars.length > 1 && html`<${Bars} bars=${bars} kinds=${listed.slice(0, 8).map((one) => [one.name, one.name])} label=${t("costs.chart", { n: bars.length })} />`}
    <${Table} caption=${t(`costs.by.${by}`)} rows=${listed} rowKey=${(one) => one.name} columns=${[{ key: "name", title: t(`costs.by.${by}`) }, ...figures]} />
    <details><summary>${t("costs.perDay")}</summary><${Table} caption=${t("costs.perDay")} rows=${[...rows].reverse().map((row) => ({ ...row, name: name(row), sent: row.input + row.cacheRead + row.cacheWrite, read: row.cacheRead, unsure: row.estimated + row.unpriced }))} rowKey=${(one) => one.day + one.agent + one.name} columns=${[{ key: "day", title: t("costs.day") }, { key: "agent", title: t("costs.by.agent") }, { key: "name", title: t(`costs.by.${by}`) }, ...figures]} /></details>
    <p class="hint">${value.total.estimated + value.total.unpriced > 0 ? t("costs.estimated", { n: value.total.estimated + value.total.unpriced }) : ""} ${t("costs.pricesAsOf", { day: day(`${value.pricesAsOf}T12:00`) })}</p>`;
}

function Budgets({ role }) {
  const { value, error, reload } = useCall("costs.budgets", {}, { live: ["costs", "settings"] });
  const [raising, raise] = useState(null);
  const own = (one) => !one.name.startsWith("budgets.");
  // One without a limit stands once, with who used most of it, so that a limit can be set.
  const shown = value?.budgets.filter((one, n, all) => one.limit !== null || all.findIndex((other) => other.name === one.name) === n);
  const elsewhere = { job: ["schedule", "nav.schedule"], heartbeat: ["settings/agents", "nav.settings"], mail: ["settings/mail", "nav.settings"] };
  const place = ({ kind, whose, unit }) => (kind === "hook" ? html`<code>homebody hooks change ${whose} --daily-${unit} …</code>` : kind === "subagent" ? t("costs.fixed") : html`<a href=${`#/${elsewhere[kind][0]}`}>${t(elsewhere[kind][1])}</a>`);
  return html`<h2>${t("costs.budgets")}</h2><${ErrorNotice} error=${error} retry=${reload} />${value && !value.enabled && html`<${Notice} kind="warn">${t("costs.notHeld")}<//>`}
    ${value && html`<${Table} caption=${t("costs.budgets")} rows=${shown} rowKey=${(one) => one.name + one.whose} columns=${[
      { key: "name", title: t("costs.budget"), cell: (one) => html`${t(`costs.${own(one) ? `of.${one.kind}` : one.name.split(".").slice(0, 2).join(".")}`)}, ${t(`costs.unit.${one.unit}`)} ${one.whose && html`<div class=${own(one) ? "soft" : "soft mono"} dir="auto">${one.whose}</div>`}` },
      { key: "used", title: t("costs.used"), cell: (one) => html`${one.limit === null ? amount(one.used, one.unit) : t("costs.usedOf", { used: amount(one.used, one.unit), limit: amount(one.limit, one.unit) })}${one.limit !== null && html`<${Meter} value=${one.used} max=${one.limit} label=${percent(one.share)} />`}` },
      { key: "left", title: t("costs.left"), number: true, cell: (one) => (one.limit === null ? t("costs.unlimited") : html`${amount(one.left, one.unit)} ${one.share >= value.warnAt && html`<${Badge} kind="warn">${percent(one.share)}<//>`}`) },
      ...(role === "owner" ? [{ key: "raise", title: t("costs.change"), cell: (one) => own(one) ? place(one) : html`<${Button} onClick=${() => raise(one)} label=${t("costs.changeOne", { name: one.name })}>${t("costs.change")}<//>` }] : []),
    ]} />`}
    ${raising && html`<${Raise} budget=${raising} close=${() => raise(null)} done=${() => { raise(null); reload(); }} />`}`;
}

function Raise({ budget, close, done }) {
  const [typed, type] = useState(budget.limit === null ? "" : String(budget.limit));
  const [draft, show] = useState(null);
  const [failed, fail] = useState(null);
  const changes = [{ key: budget.name, value: typed.trim() || "null" }];
  const look = () => call("settings.preview", { changes }).then((found) => { fail(null); show(found); }, fail);
  const write = () => call("settings.write", { changes, expected: draft.hash }).then((came) => { if (came.written) done(); else { show(null); fail(new Error(came.message || t("costs.refused"))); } }, fail);
  const wrong = draft?.problems?.map((one) => one.message).join(" ") || draft?.message;
  const ready = draft && !wrong;
  return html`<${Dialog} title=${t("costs.changeOne", { name: budget.name })} onClose=${close} actions=${html`<${Button} onClick=${close}>${t("shell.cancel")}<//>${ready ? html`<${Button} kind="main" onClick=${write}>${t("costs.write")}<//>` : html`<${Button} kind="main" onClick=${look}>${t("costs.look")}<//>`}`}>
    <${Field} label=${t("costs.limit", { unit: t(`costs.unit.${budget.unit}`) })} hint=${t("costs.limitHint")} inputmode="decimal" value=${typed} error=${wrong} onInput=${(text) => { type(text); show(null); }} />
    ${ready && (draft.diff.length ? html`<${Diff} lines=${draft.diff} />` : html`<p>${t("costs.same")}</p>`)}<${ErrorNotice} error=${failed} /><//>`;
}

function Longer({ days }) {
  const { value, error, reload } = useCall("costs.cache", { days });
  return html`<h2>${t("costs.longer")}</h2><${ErrorNotice} error=${error} retry=${reload} />${value && html`<p>${t("costs.longerAbout", { retention: value.retention })}</p>
    ${value.models.length === 0 ? html`<${Empty}>${t("costs.noHour")}<//>` : html`<p>${value.net >= 0 ? t("costs.saves", { usd: money(value.net), days }) : t("costs.wastes", { usd: money(-value.net), days })}</p>
    <${Table} caption=${t("costs.longer")} rows=${value.models} rowKey=${(one) => one.model} columns=${[
      { key: "model", title: t("context.model") },
      { key: "missed", title: t("costs.missed"), number: true, cell: (one) => t("costs.missedOf", { n: one.missedCalls, calls: one.calls }) },
      { key: "tokens", title: t("context.tokens"), number: true, cell: (one) => number(one.missedTokens) },
      { key: "saved", title: t("costs.less"), number: true, cell: (one) => html`<${Money} usd=${one.saved} />` },
      { key: "dearer", title: t("costs.dearer"), number: true, cell: (one) => html`<${Money} usd=${one.dearer + one.longer} />` },
    ]} />`}`}`;
}
