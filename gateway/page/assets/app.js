// The frame of the page: who is let in, where one is, the navigation, and the notifications of open questions.
import { html, render, useState, useEffect, useRef } from "./vendor/preact-htm.js";
import { call, me, enter, onLeft } from "./api.js";
import { beginLive, entered, looked, onLive, refresh, useConnection } from "./live.js";
import { t, loadTexts, languages, currentLanguage, chooseLanguage } from "./texts.js";
import { Button, ErrorNotice, Loading, Notice, Page, Select, Words } from "./ui.js";

// The pages in the order of the navigation: the files in pages/ of these names, which come as one module.
const PAGES = ["chat", "memory", "approvals", "schedule", "context", "sessions", "costs", "health", "settings", "browsers"];
const FIRST = PAGES[0];
const toTitle = () => document.getElementById("title")?.focus();

function routeOf(hash) {
  const [path, query] = hash.replace(/^#\/?/, "").split("?");
  const parts = path.split("/").filter(Boolean).map((one) => { try { return decodeURIComponent(one); } catch { return one; } });
  return { page: parts.shift() || FIRST, parts, query: Object.fromEntries(new URLSearchParams(query || "")) };
}

function useRoute() {
  const [route, change] = useState(() => routeOf(location.hash));
  useEffect(() => {
    const moved = () => change(routeOf(location.hash));
    addEventListener("hashchange", moved);
    return () => removeEventListener("hashchange", moved);
  }, []);
  return route;
}

function Content({ route, facts }) {
  const [loaded, change] = useState({});
  const first = useRef(true);
  useEffect(() => {
    if (!PAGES.includes(route.page)) { change({ page: route.page, missing: true }); return; }
    let mine = true;
    import("./pages.js").then((module) => mine && change({ page: route.page, View: module[route.page] }), () => mine && change({ page: route.page, error: {} }));
    return () => { mine = false; };
  }, [route.page]);
  useEffect(() => {
    if (loaded.page !== route.page) return;
    if (!first.current) toTitle();
    first.current = false;
  }, [loaded.page]);
  if (loaded.page !== route.page) return html`<${Loading} />`;
  if (loaded.missing) return html`<${Page} title=${t("shell.missing")}><p><a href="#/">${t("shell.toStart")}</a></p><//>`;
  if (loaded.error) return html`<${Page} title=${t("shell.failed")}><${ErrorNotice} error=${loaded.error} retry=${() => location.reload()} /><//>`;
  return html`<${loaded.View} route=${route} role=${facts.role} agents=${facts.agents} me=${facts} />`;
}

function Navigation({ route, open, onClose }) {
  const [answered, answer] = useState(false);
  const canAsk = !answered && isSecureContext && window.Notification?.permission === "default";
  return html`<nav id="navigation" class=${open ? "open" : ""} aria-label=${t("shell.navigation")}>
    <ul>${PAGES.map((name) => html`<li key=${name}><a href=${`#/${name}`} aria-current=${route.page === name ? "page" : undefined} onClick=${onClose}>${t(`nav.${name}`)}</a></li>`)}</ul>
    <div class="foot">${canAsk && html`<${Button} onClick=${() => Notification.requestPermission().then(() => answer(true))}>${t("shell.notify")}<//>`}
      <${Select} label=${t("shell.language")} value=${currentLanguage()} options=${Object.entries(languages())} onInput=${chooseLanguage} /></div>
  </nav>`;
}

// Notifications of questions that wait for an answer, wherever they were asked, if the browser allows them and nobody looks at the page.
const asked = new Set();

async function notify(id, text, place) {
  if (asked.has(id) || window.Notification?.permission !== "granted" || await looked() || asked.has(id)) return;
  asked.add(id);
  const shown = new Notification(t("shell.asked"), { body: String(text || "").slice(0, 200), tag: id });
  shown.onclick = () => { window.focus(); location.hash = `#/${place}`; shown.close(); };
}

function useNotifications() {
  useEffect(() => onLive("chat.said", ({ data }) => {
    const buttons = data?.item?.buttons;
    if (buttons?.length && !buttons[0].value.startsWith("/approve")) notify(data.item.id, data.item.text, `chat/${encodeURIComponent(data.session)}`);
  }), []);
  useEffect(() => onLive("approvals", () => document.hidden && call("approvals.list").then((found) => found.approvals.forEach((one) => notify(one.name, one.summary, "approvals")), () => {})), []);
}

function App({ facts }) {
  const route = useRoute();
  const connection = useConnection();
  const [shown, show] = useState(false);
  const [gone, setGone] = useState(null);
  const menu = useRef();
  useNotifications();
  useEffect(() => { let out = false; onLeft((why) => { setGone(why); if (out && !why) refresh(); out = !!why; }); }, []);
  useEffect(() => { const close = (event) => { if (event.key === "Escape" && shown) { show(false); menu.current.focus(); } }; addEventListener("keydown", close); return () => removeEventListener("keydown", close); }, [shown]);
  return html`<a class="skip" href="#title" onClick=${(event) => { event.preventDefault(); toTitle(); }}>${t("shell.skip")}</a>
    <header class="top"><button type="button" ref=${menu} class="button menu" aria-expanded=${shown ? "true" : "false"} aria-controls="navigation" onClick=${() => show(!shown)}>${t("shell.menu")}</button>
      <a class="brand" href="#/">Homebody</a>${facts.role === "viewer" && html`<span class="badge">${t("browsers.viewer")}</span>`}
      <span class="state" role="status">${connection === "off" && !gone ? t("shell.disconnected") : ""}</span></header>
    <div class="body"><${Navigation} route=${route} open=${shown} onClose=${() => { show(false); toTitle(); }} />
      <main>${gone && html`<${Notice} kind="error"><p>${t("shell.expired")}</p><p class="hint"><${Words} text=${t("shell.expiredHint")} /></p><${Button} onClick=${() => me().catch(() => {})}>${t("shell.again")}<//><//>`}
        <${Content} route=${route} facts=${facts} /></main></div>`;
}

function Plain({ title, children }) {
  return html`<main class="plain"><h1>${title}</h1>${children}</main>`;
}

async function enterByCode(root) {
  const code = location.hash.slice(1);
  history.replaceState(null, "", "/enter");
  if (!code) {
    render(html`<${Plain} title="Homebody"><p>${t("shell.noCode")}</p><pre><code>homebody open</code></pre><//>`, root);
    return;
  }
  try {
    await enter(code);
    entered();
  } catch (error) {
    render(html`<${Plain} title=${t("shell.notEntered")}><${ErrorNotice} error=${error} /><//>`, root);
    return;
  }
  try {
    await me();
  } catch (error) {
    if (error.status === 401) {
      render(html`<${Plain} title=${t("shell.noCookies")}><p>${t("shell.noCookiesHint")}</p><pre><code>homebody open</code></pre><//>`, root);
      return;
    }
  }
  location.replace("/");
}

async function begin() {
  const root = document.getElementById("app");
  await loadTexts();
  root.replaceChildren();
  if (location.pathname === "/enter") return enterByCode(root);
  let facts;
  try {
    facts = await me();
  } catch (error) {
    const out = error.status === 401;
    const body = out ? html`<p>${t("shell.noCode")}</p><pre><code>homebody open</code></pre>` : html`<${ErrorNotice} error=${error} retry=${() => location.reload()} />`;
    render(html`<${Plain} title=${out ? t("shell.notIn") : t("shell.failed")}>${body}<//>`, root);
    return;
  }
  beginLive(facts.event, facts.beat);
  render(html`<${App} facts=${facts} />`, root);
}

begin();
