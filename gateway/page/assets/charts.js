// Stacked bars in SVG. What they show stands in a table beside them, so that nobody needs to see them.
import { html } from "./ui.js";

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
