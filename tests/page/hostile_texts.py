"""Texts that have run as programs in pages of others: what people, models, tools and file names may hold."""

from __future__ import annotations

from typing import Final

_HIT: Final = "window.__hit=1"
_MARKUP: Final = (
    f"<script>{_HIT}</script>",
    f"<ScRiPt>{_HIT}</sCrIpT>",
    "<script src=//evil.example/x.js></script>",
    f"<img src=x onerror={_HIT}>",
    f"<img src=x onerror='{_HIT}'",
    f'<img src="x" onerror="{_HIT}">',
    f"<svg onload={_HIT}>",
    f"<svg><script>{_HIT}</script></svg>",
    f"<svg><animate onbegin={_HIT} attributeName=x dur=1s>",
    f"<svg><set onbegin={_HIT} attributeName=x>",
    f"<body onload={_HIT}>",
    f"<iframe src=javascript:{_HIT}></iframe>",
    f'<iframe srcdoc="<script>{_HIT}</script>"></iframe>',
    f"<object data=javascript:{_HIT}>",
    f"<embed src=javascript:{_HIT}>",
    f"<math><mi xlink:href=javascript:{_HIT}>x",
    f"<a href=javascript:{_HIT}>x</a>",
    f"<form action=javascript:{_HIT}><button>x",
    f"<input autofocus onfocus={_HIT}>",
    f"<select autofocus onfocus={_HIT}>",
    f"<textarea autofocus onfocus={_HIT}>",
    f"<details open ontoggle={_HIT}>",
    f"<video><source onerror={_HIT}>",
    f"<audio src onerror={_HIT}>",
    f"<marquee onstart={_HIT}>",
    f"<style>@import'//evil.example';</style><style onload={_HIT}>",
    "<link rel=stylesheet href=//evil.example>",
    "<base href=//evil.example>",
    "<meta http-equiv=refresh content='0;url=//evil.example'>",
    f"<template><script>{_HIT}</script></template>",
    f"<noscript><p title='</noscript><img src=x onerror={_HIT}>'>",
    f"<!--<img src='--><img src=x onerror={_HIT}//'>",
    f"</textarea><script>{_HIT}</script>",
    f"</title><script>{_HIT}</script>",
    f"]]><script>{_HIT}</script>",
    f"<x onclick={_HIT} style=position:fixed;inset:0>x",
    f"<img/src='x'/onerror={_HIT}>",
    f"<<script>{_HIT}//<</script>",
    f"&lt;script&gt;{_HIT}&lt;/script&gt;",
    f"\u003cscript\u003e{_HIT}\u003c/script\u003e",
    f"＜script＞{_HIT}＜/script＞",
    f"<scr\x00ipt>{_HIT}</scr\x00ipt>",
    f'"><script>{_HIT}</script>',
    f"'-{_HIT}-'",
    f'"autofocus onfocus={_HIT} x="',
    "${window.__hit=1}",
    "{{constructor.constructor('window.__hit=1')()}}",
    f"`;{_HIT}//",
    "\u2028window.__hit=1\u2029",
    "data: {}\n\nevent: x\ndata: y",
)
_LINKS: Final = (
    f"javascript:{_HIT}",
    f"JaVaScRiPt:{_HIT}",
    f" javascript:{_HIT}",
    f"java\tscript:{_HIT}",
    f"java&#10;script:{_HIT}",
    f"javascript&colon;{_HIT}",
    f"\x01javascript:{_HIT}",
    f"data:text/html,<script>{_HIT}</script>",
    "data:text/html;base64,PHNjcmlwdD53aW5kb3cuX19oaXQ9MTwvc2NyaXB0Pg==",
    f"vbscript:{_HIT}",
    "file:///etc/passwd",
    "blob:http://127.0.0.1/x",
    "//evil.example",
    "\\\\evil.example",
    "/page/call/page.revoke",
    f'https://evil.example/" onclick="{_HIT}',
    f"https://evil.example/'onmouseover='{_HIT}",
    f"https://evil.example/><img src=x onerror={_HIT}>",
    "tg://user?id=7",
    "view-source:x",
)


def _written(link: str) -> list[str]:
    return [
        f"[x]({link})",
        f"[x](<{link}>)",
        f"![x]({link})",
        f"<{link}>",
        f"[x]: {link}\n\n[x]",
        f'[x](https://a.example "{link}")',
        f"[![x]({link})]({link})",
    ]


TEXTS: Final = (
    *_MARKUP,
    *(f"# {one}" for one in _MARKUP[:20]),
    *(f"| a |\n|---|\n| {one} |" for one in _MARKUP[:20]),
    *(f"```{one}\n{one}\n```" for one in _MARKUP[:10]),
    *(written for link in _LINKS for written in _written(link)),
)
