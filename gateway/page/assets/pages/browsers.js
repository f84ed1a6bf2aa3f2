// Which browsers may open the page: the list, and revoking one.
import { html, useState, Page, Table, Button, Badge, Dialog, ErrorNotice, Loading, When, Words, useCall } from "../ui.js";
import { call } from "../api.js";
import { t } from "../texts.js";

const named = (one) => { const [, name, system] = /^(\w+) on (\w+)$/.exec(one.name) || []; return system ? t("browsers.on", { name, system }) : one.name; };

export default function Browsers({ role, me }) {
  const { value, error, loading, reload } = useCall("page.browsers", {}, { live: "page" });
  const [asked, ask] = useState(null);
  const [failed, fail] = useState(null);
  const revoke = async () => {
    try {
      await call("page.revoke", { browser: asked.id });
      if (asked.id === me.browser) { location.reload(); return; }
      ask(null);
      reload();
    } catch (wrong) { ask(null); fail(wrong); }
  };
  const columns = [
    { key: "name", title: t("browsers.name"), cell: (one) => html`${named(one)} ${one.id === me.browser && html`<${Badge}>${t("browsers.this")}<//>`}` },
    { key: "role", title: t("browsers.role"), cell: (one) => t(`browsers.${one.role}`) },
    { key: "seen", title: t("browsers.seen"), cell: (one) => html`<${When} at=${one.seen} />` },
    { key: "expires", title: t("browsers.expires"), cell: (one) => html`<${When} at=${one.expires} />` },
  ];
  if (role === "owner") columns.push({ key: "revoke", title: t("browsers.action"), cell: (one) => html`<${Button} onClick=${() => ask(one)} label=${t("browsers.revokeOne", { name: named(one) })}>${t("browsers.revoke")}<//>` });
  return html`<${Page} title=${t("nav.browsers")}><p>${t("browsers.about")}</p><pre tabindex="0"><code>homebody open</code></pre>
    <${ErrorNotice} error=${error || failed} retry=${reload} />
    ${loading ? html`<${Loading} />` : html`<${Table} caption=${t("nav.browsers")} columns=${columns} rows=${value} rowKey=${(one) => one.id} />`}
    ${asked && html`<${Dialog} title=${t("browsers.sure", { name: named(asked) })} onClose=${() => ask(null)} actions=${html`<${Button} onClick=${() => ask(null)}>${t("shell.cancel")}<//><${Button} kind="danger" onClick=${revoke}>${t("browsers.revoke")}<//>`}>
      <p><${Words} text=${t(asked.id === me.browser ? "browsers.sureThis" : "browsers.sureOther")} /></p><//>`}<//>`;
}
