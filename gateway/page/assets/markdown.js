// Makes elements of the tree that the gateway makes of Markdown. Names and attributes are those of this table and no others.
import { h } from "./vendor/preact-htm.js";

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
