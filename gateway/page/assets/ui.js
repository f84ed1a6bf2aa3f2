// The parts that pages are made of. Every control is a real button, link or field with a name; changes are told to screen readers.
import { html, h, useState, useEffect, useLayoutEffect, useRef, useCallback, useMemo } from "./vendor/preact-htm.js";
import { call } from "./api.js";
import { onLive } from "./live.js";
import { t, ago, moment, money } from "./texts.js";

let numbers = 0;
const useId = () => useMemo(() => `f${++numbers}`, []);
export const join = (...names) => names.filter(Boolean).join(" ");

export function Page({ title, actions, children, wide }) {
  useEffect(() => { document.title = title ? `${title} · Homebody` : "Homebody"; }, [title]);
  return html`<div class=${join("page", wide && "wide")}>
    <header class="head"><h1 tabindex="-1" id="title">${title}</h1>${actions && html`<div class="row">${actions}</div>`}</header>
    ${children}
  </div>`;
}

export function Button({ kind, onClick, busy, children, label, type = "button", disabled, ...more }) {
  return html`<button type=${type} class=${join("button", kind)} onClick=${busy ? undefined : onClick} aria-busy=${busy ? "true" : undefined}
    aria-label=${label} title=${label || null} disabled=${disabled || busy} ...${more}>${children}</button>`;
}

// One labelled field. `rows` makes it a text of several lines, `type` is that of an input.
export function Field({ label, value, onInput, rows, hint, error, hidden, type = "text", ...more }) {
  const id = useId();
  const about = hint || error ? `${id}-about` : undefined;
  const given = { id, value, onInput: (event) => onInput?.(type === "checkbox" ? event.target.checked : event.target.value, event), "aria-describedby": about, "aria-invalid": error ? "true" : undefined, dir: "auto", ...more };
  const about_ = about && html`<p id=${about} class=${error ? "error" : "hint"}><${Words} text=${error || hint} /></p>`;
  if (type === "checkbox") {
    return html`<div class="field check"><input type="checkbox" ...${given} checked=${!!value} value=${undefined} dir=${undefined} /><label for=${id}>${label}</label>${about_}</div>`;
  }
  return html`<div class="field"><label for=${id} class=${hidden && "unseen"}>${label}</label>
    ${rows ? html`<textarea rows=${rows} ...${given}></textarea>` : html`<input type=${type} ...${given} />`}${about_}</div>`;
}

// `options` are [value, text] pairs, or texts.
export function Select({ label, value, onInput, options, hidden, hint, ...more }) {
  const id = useId();
  return html`<div class="field"><label for=${id} class=${hidden && "unseen"}>${label}</label>
    <select id=${id} value=${value} onChange=${(event) => onInput(event.target.value)} aria-describedby=${hint ? `${id}-about` : undefined} ...${more}>
      ${options.map((one) => { const [key, text] = Array.isArray(one) ? one : [one, one]; return html`<option key=${key} value=${key} selected=${key === value}>${text}</option>`; })}
    </select>${hint && html`<p id=${`${id}-about`} class="hint">${hint}</p>`}</div>`;
}

// `columns`: {key, title, cell(row), number}. The first cell of a row is its header.
export function Table({ columns, rows, empty, caption, rowKey }) {
  if (!rows?.length) return html`<${Empty}>${empty}<//>`;
  // On a small screen each row is a card with the title before each value; the roles keep it a table for screen readers.
  return html`<div class="scroll" tabindex="0" role="region" aria-label=${caption || t("shell.table")}><table class="rows" role="table">
    ${caption && html`<caption class="unseen">${caption}</caption>`}
    <thead role="rowgroup"><tr role="row">${columns.map((one) => html`<th key=${one.key} scope="col" role="columnheader" class=${one.number && "to-right"}>${one.title}</th>`)}</tr></thead>
    <tbody role="rowgroup">${rows.map((row, index) => html`<tr key=${rowKey ? rowKey(row) : index} role="row">${columns.map((one, place) => {
      const shown = one.cell ? one.cell(row) : row[one.key];
      return place ? html`<td key=${one.key} role="cell" data-title=${one.title} class=${one.number && "to-right"}><div dir=${one.number ? undefined : "auto"}>${shown}</div></td>` : html`<th key=${one.key} scope="row" role="rowheader" dir="auto">${shown}</th>`;
    })}</tr>`)}</tbody></table></div>`;
}

// `tabs`: [[key, title, href]]; the chosen one is a link to where one is.
export function Tabs({ tabs, chosen, label }) {
  return html`<nav class="tabs" aria-label=${label}>${tabs.map(([key, title, href]) => html`<a key=${key} href=${href} aria-current=${key === chosen ? "page" : undefined}>${title}</a>`)}</nav>`;
}

export function Dialog({ title, onClose, children, actions, wide }) {
  const ref = useRef();
  const id = useId();
  useEffect(() => { const shown = ref.current; if (!shown.open) shown.showModal(); return () => shown.close(); }, []);
  return html`<dialog ref=${ref} class=${wide && "wide"} aria-labelledby=${id} onCancel=${(event) => { event.preventDefault(); onClose(); }}
      onClick=${(event) => event.target === ref.current && onClose()}>
    <div class="inside"><h2 id=${id}>${title}</h2>${children}<div class="row end">${actions || html`<${Button} onClick=${onClose}>${t("shell.close")}<//>`}</div></div></dialog>`;
}

export function Notice({ kind = "info", children }) {
  return html`<div class=${join("notice", kind)} role=${kind === "error" ? "alert" : "status"}>${children}</div>`;
}

// A text in which commands stand between backticks.
export const Words = ({ text }) => String(text || "").split("`").map((part, index) => (index % 2 ? html`<code key=${index}>${part}</code>` : part));

export function ErrorNotice({ error, retry }) {
  if (!error) return null;
  return html`<${Notice} kind="error"><p dir="auto"><${Words} text=${error.message || t("shell.offline")} /></p>${(error.hint || !error.message) && html`<p class="hint" dir="auto"><${Words} text=${error.hint || t("shell.offlineHint")} /></p>`}
    ${retry && html`<${Button} onClick=${retry}>${t("shell.again")}<//>`}<//>`;
}

export const Loading = () => html`<p class="loading" role="status">${t("shell.loading")}</p>`;
export const Empty = ({ children }) => html`<p class="empty">${children || t("shell.nothing")}</p>`;
export const Badge = ({ kind, children }) => html`<span class=${join("badge", kind)}>${children}</span>`;
export const Code = ({ children }) => html`<pre tabindex="0" dir="auto"><code>${children}</code></pre>`;
export const Money = ({ usd }) => (usd === null || usd === undefined ? "–" : money(usd));
export const When = ({ at }) => (at ? html`<time datetime=${at} title=${moment(at)}>${ago(at)}</time>` : "–");

// `lines`: texts that begin with "+", "-" or " ".
export function Diff({ lines }) {
  const names = { "+": ["added", t("shell.added")], "-": ["removed", t("shell.removed")] };
  return html`<pre class="diff" tabindex="0"><code>${lines.map((line, index) => {
    const [name, told] = names[line[0]] || ["", ""];
    return html`<span key=${index} class=${name}>${told && html`<span class="unseen">${told} </span>`}${line}${"\n"}</span>`;
  })}</code></pre>`;
}

// Asks a call when its arguments change, and again on live events of a kind (`live`).
export function useCall(name, args = {}, { live } = {}) {
  const [state, change] = useState({ loading: true });
  const wanted = JSON.stringify([name, args]);
  const number = useRef(0);
  const reload = useCallback(async () => {
    const mine = ++number.current;
    try {
      const value = await call(name, args);
      if (mine === number.current) change({ value, loading: false, asked: wanted });
    } catch (error) {
      if (mine === number.current) change((before) => ({ value: before.asked === wanted ? before.value : undefined, error, loading: false, asked: wanted }));
    }
  }, [wanted]);
  useEffect(() => {
    change((before) => (before.asked === wanted ? before : { loading: true }));
    if (name) reload();
    return () => { number.current += 1; };
  }, [wanted]);
  useEffect(() => {
    const ends = [live].flat().filter(Boolean).map((kind) => onLive(kind, reload));
    return () => ends.forEach((end) => end());
  }, [wanted, String(live)]);
  return { ...state, reload };
}

// What was typed and not stored: it outlives a lost connection, an expired cookie and a reload of the page. Each tab has its own, and a
// new one takes what was typed last.
export const typed = {
  get(key) {
    try {
      const found = sessionStorage.getItem(key) ?? localStorage.getItem(key);
      if (found) sessionStorage.setItem(key, found);
      return found;
    } catch { return null; }
  },
  put(key, value) {
    try {
      const stores = value || localStorage.getItem(key) === sessionStorage.getItem(key) ? [sessionStorage, localStorage] : [sessionStorage];
      for (const store of stores) value ? store.setItem(key, value) : store.removeItem(key);
    } catch {
      // It is in the page still.
    }
  },
};

export function useKept(key, initial = "") {
  const place = `homebody.kept.${key}`;
  const read = () => typed.get(place) ?? initial;
  const [value, change] = useState(read);
  useEffect(() => change(read()), [place]);
  const keep = (next) => {
    change(next);
    typed.put(place, next === initial ? "" : next);
  };
  return [value, keep];
}

// Shows of many items only those near the visible part. `item(one, index)` returns an element; heights are measured as they come.
// `end` keeps it at the end while a person is there; `onStart` is called near the beginning, for more; `anchor` is the key to scroll to.
export function VirtualList({ items, keyOf, item, end, onStart, anchor, label, role = "list", foot }) {
  const box = useRef();
  const heights = useRef(new Map());
  const [view, setView] = useState({ top: 0, height: 800 });
  const [version, measured] = useState(0);
  const follows = useRef(end);
  const usual = 72;
  const tops = useMemo(() => {
    const found = [0];
    for (const one of items) found.push(found[found.length - 1] + (heights.current.get(keyOf(one)) || usual));
    return found;
  }, [items, version]);
  const find = (y) => {
    let low = 0, high = items.length;
    while (low < high) { const middle = (low + high) >> 1; if (tops[middle + 1] <= y) low = middle + 1; else high = middle; }
    return low;
  };
  const first = Math.max(0, find(view.top) - 8);
  const lastOne = Math.min(items.length, find(view.top + view.height) + 9);
  const total = tops[tops.length - 1];
  const before = useRef({ key: null, top: 0 });
  const look = () => {
    const shown = box.current;
    if (!shown) return;
    follows.current = end && shown.scrollHeight - shown.scrollTop - shown.clientHeight < 60;
    const index = find(shown.scrollTop);
    before.current = items[index] ? { key: keyOf(items[index]), top: shown.scrollTop - tops[index] } : { key: null, top: 0 };
    if (Math.abs(shown.scrollTop - view.top) > 200 || shown.clientHeight !== view.height) setView({ top: shown.scrollTop, height: shown.clientHeight });
    if (shown.scrollTop < 600) onStart?.();
  };
  useEffect(() => {
    const shown = box.current;
    const watcher = new ResizeObserver(() => { if (follows.current) shown.scrollTop = shown.scrollHeight; look(); });
    watcher.observe(shown);
    return () => watcher.disconnect();
  }, []);
  // Before each drawing: measure what is shown, and keep what a person looks at where it is.
  useLayoutEffect(() => {
    const shown = box.current;
    let changed = false;
    for (const one of shown.querySelectorAll("[data-key]")) {
      const height = one.offsetHeight;
      if (height && heights.current.get(one.dataset.key) !== height) { heights.current.set(one.dataset.key, height); changed = true; }
    }
    if (changed) { measured((number) => number + 1); return; }
    if (follows.current) { shown.scrollTop = shown.scrollHeight; return; }
    const { key, top } = before.current;
    const index = key === null ? -1 : items.findIndex((one) => keyOf(one) === key);
    if (index >= 0 && Math.abs(tops[index] + top - shown.scrollTop) > 1) shown.scrollTop = tops[index] + top;
  });
  useEffect(() => {
    const index = anchor ? items.findIndex((one) => keyOf(one) === anchor) : -1;
    if (index < 0) return;
    follows.current = false;
    before.current = { key: anchor, top: -80 };
    box.current.scrollTop = tops[index] - 80;
    look();
  }, [anchor, items.length > 0]);
  return html`<div class="virtual" ref=${box} onScroll=${look} tabindex="0" role="region" aria-label=${label}>
    <div role=${role} class="all" ref=${(one) => one && one.style.setProperty("--total", `${total}px`)}>
      <div class="window" ref=${(one) => one && one.style.setProperty("--top", `${tops[first]}px`)}>
        ${items.slice(first, lastOne).map((one, index) => html`<div key=${keyOf(one)} data-key=${keyOf(one)} role=${role === "list" ? "listitem" : undefined} aria-setsize=${role === "list" ? items.length : undefined} aria-posinset=${role === "list" ? first + index + 1 : undefined}>${item(one, first + index)}</div>`)}
      </div>
    </div>${foot}
  </div>`;
}
// Makes elements of the tree that the gateway makes of Markdown. Names and attributes are those of this table and no others.
const KNOWN = new Set("p blockquote ul ol li em strong s a code pre br hr table thead tbody tr th td".split(" "));
const HEADS = { h1: "h3", h2: "h4", h3: "h5", h4: "h6", h5: "h6", h6: "h6" };
const SAFE = /^(https?:\/\/|mailto:)/i;

function element(node, index) {
  if (typeof node === "string") return node;
  if (!Array.isArray(node)) return null;
  const [name, ...rest] = node;
  const given = rest.length && rest[0] && typeof rest[0] === "object" && !Array.isArray(rest[0]) ? rest.shift() : {};
  const tag = HEADS[name] || (KNOWN.has(name) ? name : "span");
  const props = { key: index };
  if (tag === "a") {
    if (!SAFE.test(given.href || "")) return h("span", props, rest.map(element));
    Object.assign(props, { href: given.href, target: "_blank", rel: "noopener noreferrer nofollow" });
  }
  if (tag === "ol" && Number.isInteger(given.start)) props.start = given.start;
  if ((tag === "th" || tag === "td") && /^(left|right|center)$/.test(given.align || "")) props.class = `to-${given.align}`;
  if (tag === "pre") return h("pre", { ...props, tabIndex: 0 }, h("code", null, rest.map(element)));
  if (tag === "table") return h("div", { ...props, class: "scroll", tabIndex: 0 }, h("table", null, rest.map(element)));
  return h(tag, props, rest.map(element));
}

export function Markdown({ tree }) {
  return h("div", { class: "markdown", dir: "auto" }, (tree || []).map(element));
}
// Stacked bars in SVG. What they show stands in a table beside them, so that nobody needs to see them.
const HEIGHT = 160;

// `bars`: [{key, title, values: {kind: number}, href, marks: [kind]}]; `kinds`: [[kind, name]]; `lines`: [[value, class]]; `top`: the largest value.
export function Bars({ bars, kinds, lines = [], top, label, chosen }) {
  const sum = (one) => Object.values(one.values).reduce((all, value) => all + value, 0);
  const most = top || Math.max(...bars.map(sum), 1e-9);
  const step = Math.max(8, Math.min(40, 640 / (bars.length || 1)));
  const width = Math.max(320, step * bars.length);
  const y = (value) => HEIGHT - (Math.min(value, most) / most) * HEIGHT;
  return html`<div class="chart" ref=${toEnd} role="region" tabindex="0" aria-label=${label}><svg viewBox=${`0 -12 ${width} ${HEIGHT + 14}`} width=${width} height=${HEIGHT + 14} preserveAspectRatio="none" role="img" aria-label=${label}>
    ${lines.map(([value, name]) => value <= most && html`<line key=${name} class=${name} x1="0" x2=${width} y1=${y(value)} y2=${y(value)} />`)}
    ${bars.map((one, index) => {
      let below = 0;
      return html`<g key=${one.key} class=${one.key === chosen ? "chosen" : ""} onClick=${one.href && (() => { location.hash = one.href; })}><title>${one.title}</title>
        <rect class="hit" x=${index * step} y="-12" width=${step} height=${HEIGHT + 14} />
        ${kinds.map(([kind]) => {
          const value = one.values[kind] || 0;
          if (value <= 0) return null;
          const from = y(below + value), to = y(below);
          below += value;
          return html`<rect key=${kind} class=${`fill ${kindClass(kinds, kind)}`} x=${index * step + 1} y=${from} width=${step - 2} height=${Math.max(0.5, to - from)} />`;
        })}
        ${(one.marks || []).map((mark, n) => html`<path key=${mark + n} class=${`mark ${mark}`} d=${`M${index * step + n * 4} -12v${HEIGHT + 14}`} />`)}</g>`;
    })}<line class="floor" x1="0" x2=${width} y1=${HEIGHT} y2=${HEIGHT} /></svg></div>
    <ul class="legend">${kinds.map(([kind, name]) => html`<li key=${kind}><span class=${`swatch ${kindClass(kinds, kind)}`} aria-hidden="true"></span>${name}</li>`)}</ul>`;
}

// The latest bars are shown first where there is no room for all.
const toEnd = (box) => { if (box && !box.dataset.shown) { box.dataset.shown = "1"; box.scrollLeft = box.scrollWidth; } };

const kindClass = (kinds, kind) => `k${kinds.findIndex(([one]) => one === kind) % 8}`;

// How much of a limit is used, as a bar with its figure beside it.
export function Meter({ value, max, label, marks = [] }) {
  const share = max ? Math.min(1, value / max) : 0;
  return html`<svg class="meter" viewBox="0 0 200 10" preserveAspectRatio="none" role="img" aria-label=${label}>
    <rect class="track" width="200" height="10" rx="3" /><rect class=${share >= 0.8 ? "used much" : "used"} width=${share * 200} height="10" rx="3" />
    ${marks.map((mark) => html`<path key=${mark} class="at" d=${`M${Math.min(1, mark / (max || 1)) * 200} 0v10`} />`)}</svg>`;
}
export { html, h, useState, useEffect, useRef, useCallback, useMemo };
