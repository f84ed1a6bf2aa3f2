// Approvals: questions that wait for an answer with the command taken apart, those that were decided, and the rules.
import { call } from "../api.js";
import { t } from "../texts.js";
import { Badge, Button, Code, Diff, Empty, ErrorNotice, html, Loading, Notice, Page, Table, Tabs, useCall, useState, When } from "../ui.js";

export default function Approvals({ route, role, agents }) {
  const place = route.parts[0] || "";
  return html`<${Page} title=${t("nav.approvals")}>
    <${Tabs} label=${t("nav.approvals")} chosen=${place} tabs=${[["", t("approvals.open"), "#/approvals"], ["decided", t("approvals.decided"), "#/approvals/decided"], ["rules", t("approvals.rules"), "#/approvals/rules"]]} />
    ${place === "rules" ? html`<${Rules} role=${role} agents=${agents} />` : place === "decided" ? html`<${Decided} />` : html`<${Open} role=${role} />`}
  <//>`;
}

function Open({ role }) {
  const { value, error, reload } = useCall("approvals.list", {}, { live: "approvals" });
  const [said, say] = useState({});
  const names = value ? value.approvals.map((one) => one.name) : [];
  const without = (name) => names.filter((one) => one !== name).join();
  const done = (name, told) => { say({ told, name, left: without(name) }); reload(); };
  if (!value) return error ? html`<${ErrorNotice} error=${error} retry=${reload} />` : html`<${Loading} />`;
  // Below what waits, and gone for good once another question comes or is decided elsewhere, so that it is not taken for a part of that.
  if (without(said.name) !== said.left) said.told = "";
  const told = said.told;
  return html`${value.approvals.length === 0 ? html`<${Empty}>${t("approvals.none")}<//>` : value.approvals.map((one) => html`<${Question} key=${one.name} name=${one.name} role=${role} done=${done} />`)}
    <p role="status" class=${told ? "notice" : "unseen"} dir="auto">${told}</p>`;
}

function Question({ name, role, done }) {
  const { value, error, reload } = useCall("approvals.show", { name });
  const [wrong, tell] = useState(null);
  const [busy, work] = useState("");
  async function decide(choice) {
    work(choice);
    try { done(name, (await call("approvals.decide", { name, choice, source: "browser page" })).told); } catch (one) { tell(one); } finally { work(""); }
  }
  if (!value) return error ? html`<${ErrorNotice} error=${error} retry=${reload} />` : html`<${Loading} />`;
  return html`<article class="card" aria-labelledby=${`q-${name}`}><h2 id=${`q-${name}`} dir="auto">${value.shown.command && value.kind === "exec" && !value.into ? t("approvals.wantsRun", { agent: value.agent }) : t("approvals.wants", { agent: value.agent, what: value.shown.summary })}</h2>
    <${Act} one=${value} />
    ${wrong && html`<${ErrorNotice} error=${wrong} />`}
    ${role === "owner" ? html`<div class="row">
      <${Button} kind="main" busy=${busy === "once"} disabled=${busy} onClick=${() => decide("once")}>${t("approvals.once")}<//>
      ${!value.whyNotAlways && html`<${Button} busy=${busy === "always"} disabled=${busy} onClick=${() => decide("always")}>${t("approvals.always")}<//>`}
      <${Button} kind="danger" busy=${busy === "deny"} disabled=${busy} onClick=${() => decide("deny")}>${t("approvals.deny")}<//></div>
      <p class="hint">${t("approvals.onceHelp")} ${value.whyNotAlways ? t("approvals.notAlways", { why: value.whyNotAlways }) : t("approvals.alwaysHelp")} ${t("approvals.expires")} (<${When} at=${value.expiresAt} />).</p>`
    : html`<p class="hint">${t("approvals.viewer")}</p>`}
  </article>`;
}

function Act({ one }) {
  const exec = one.kind === "exec";
  const origins = { owner: t("approvals.owner"), guest: t("approvals.guest"), group: t("approvals.group"), schedule: t("approvals.schedule"), webhook: t("approvals.webhook"), agent: t("approvals.agent") };
  const confined = { bwrap: t("approvals.bwrap"), landlock: t("approvals.landlock"), off: t("approvals.unconfined") };
  const facts = [
    [t("approvals.why"), one.reason], [t("approvals.from"), origins[one.origin] || one.origin],
    exec && [t("approvals.folder"), html`<code dir="auto">${one.cwd}</code>`], exec && [t("approvals.network"), one.network ? t("approvals.yes") : t("approvals.no")],
    exec && confined[one.confinement] && [t("approvals.confined"), confined[one.confinement]], one.into && [t("approvals.into"), html`<code dir="auto">${one.into}</code>`],
    Object.keys(one.env).length > 0 && [t("approvals.variables"), Object.entries(one.env).map(([name, value]) => html`<code>${name}=${value}</code> `)],
    one.path && [t("approvals.file"), html`<code dir="auto">${one.path}</code>`], one.url && [t("approvals.address"), html`<code>${one.url}</code>`],
    one.recipients.length > 0 && [t("approvals.to"), one.recipients.join(", ")],
  ].filter((fact) => fact && fact[1]);
  return html`
    ${one.taint.length > 0 && html`<${Notice} kind="warn"><p>${t("approvals.taint")}</p><ul>${one.taint.map((source) => html`<li dir="auto">${source}</li>`)}</ul><//>`}
    ${one.shown.warnings.map((warning) => html`<${Notice} kind="warn">${warning}<//>`)}
    ${one.shown.command && html`<${Code}>${one.shown.command}<//>`}
    ${one.shown.details && (/^(---|@@|[+-])/m.test(one.shown.details) && one.kind === "write" ? html`<${Diff} lines=${one.shown.details.split("\n")} />` : html`<${Code}>${one.shown.details}<//>`)}
    ${one.shown.parts.length > 1 && html`<p class="soft">${t("approvals.parts")}</p><ol>${one.shown.parts.map((part) => html`<li><code dir="auto">${part}</code></li>`)}</ol>`}
    ${one.shown.argv.length > 1 && html`<p>${t("approvals.words")} ${one.shown.argv.map((word) => html`<code class="word" dir="auto">${word || "∅"}</code> `)}</p>`}
    <dl class="facts">${facts.map(([name, value]) => html`<div><dt>${name}</dt><dd dir="auto">${value}</dd></div>`)}</dl>`;
}

function Decided() {
  const { value, error, reload } = useCall("approvals.list", { everything: true }, { live: "approvals" });
  const [shown, show] = useState("");
  if (!value) return error ? html`<${ErrorNotice} error=${error} retry=${reload} />` : html`<${Loading} />`;
  const states = { approved: t("approvals.approved"), denied: t("approvals.denied"), expired: t("approvals.expired"), withdrawn: t("approvals.withdrawn") };
  const decided = value.approvals.filter((one) => one.state !== "pending").reverse();
  return decided.length === 0 ? html`<${Empty}>${t("approvals.noneDecided")}<//>` : html`<ul class="items">${decided.map((one) => html`<li key=${one.name}><div class="row between">
      <div><span dir="auto">${one.summary}</span><br /><small class="hint">${one.agent} · <${When} at=${one.decidedAt || one.askedAt} /></small></div>
      <span class="row"><${Badge} kind=${one.state === "approved" ? "good" : ""}>${states[one.state]}${one.always ? ` (${t("approvals.always")})` : ""}<//>
      <${Button} aria-expanded=${shown === one.name ? "true" : "false"} onClick=${() => show(shown === one.name ? "" : one.name)}>${t("approvals.details")}<//></span></div>
    ${shown === one.name && html`<${Shown} name=${one.name} />`}</li>`)}</ul>`;
}

function Shown({ name }) {
  const { value, error } = useCall("approvals.show", { name });
  return value ? html`<${Act} one=${value} />` : error ? html`<${ErrorNotice} error=${error} />` : html`<${Loading} />`;
}

function Rules({ role, agents }) {
  const { value, error, reload } = useCall("approvals.rules", {}, { live: ["approvals", "settings"] });
  const [wrong, tell] = useState(null);
  const change = (name, rule) => async () => { try { await call(name, { rule }); tell(null); reload(); } catch (one) { tell(one); } };
  if (!value) return error ? html`<${ErrorNotice} error=${error} retry=${reload} />` : html`<${Loading} />`;
  const named = (id) => agents.find((one) => one.id === id)?.name || id;
  return html`${value.problem && html`<${Notice} kind="error">${value.problem}<//>`}${wrong && html`<${ErrorNotice} error=${wrong} />`}
    <p>${t("approvals.exec", { agent: named(value.agent), security: value.exec.security, ask: value.exec.ask })} <a href="#/settings/tools">${t("approvals.change")}</a></p>
    <h2>${t("approvals.ofSettings")}</h2><p class="hint">${t("approvals.ofSettingsHelp")} <a href="#/settings/approvals">${t("approvals.change")}</a></p>
    <${Table} caption=${t("approvals.ofSettings")} rows=${value.settings} empty=${t("approvals.noRules")} columns=${[
      { key: "what", title: t("approvals.what"), cell: (one) => html`<code>${one.command || one.tool}</code>` }, { key: "decision", title: t("approvals.decision"), cell: (one) => one.decision },
      { key: "agent", title: t("costs.by.agent"), cell: (one) => one.agent }, { key: "origin", title: t("approvals.from"), cell: (one) => one.origin.join(", ") }]} />
    <h2>${t("approvals.ofAlways")}</h2><p class="hint">${t("approvals.ofAlwaysHelp")}</p>
    <${Table} caption=${t("approvals.ofAlways")} rows=${value.stored} rowKey=${(one) => one.id} empty=${t("approvals.noStored")} columns=${[
      { key: "what", title: t("approvals.what"), cell: (one) => html`<code dir="auto">${one.argv.join(" ")}</code>${one.network && html` <${Badge}>${t("approvals.network")}<//>`}` },
      { key: "cwd", title: t("approvals.folder"), cell: (one) => html`<code dir="auto">${one.cwd}</code>` }, { key: "agent", title: t("costs.by.agent"), cell: (one) => named(one.agent) },
      { key: "made", title: t("approvals.made"), cell: (one) => html`<${When} at=${one.made} />` },
      role === "owner" && { key: "remove", title: t("approvals.remove"), cell: (one) => html`<${Button} kind="danger" onClick=${change("approvals.forget", one.id)}>${t("approvals.remove")}<span class="unseen"> ${one.argv.join(" ")}</span><//>` }].filter(Boolean)} />
    <h2>${t("approvals.builtIn")}</h2><p class="hint">${t("approvals.builtInHelp")}</p>
    <ul class="items two">${value.builtIn.map((one) => html`<li key=${one.id} class="row between"><span class=${one.on ? "" : "off"}>${one.commands}</span>
      ${role === "owner" && html`<${Button} onClick=${change(one.on ? "approvals.forget" : "approvals.restore", one.id)}>${one.on ? t("approvals.off") : t("approvals.on")}<span class="unseen"> ${one.commands}</span><//>`}</li>`)}</ul>`;
}
