"""Forged requests: not one connection to an address that is not public, and a control in which they get through."""

from __future__ import annotations

import contextlib
from collections import Counter

import pytest

from agent.errors import FetchFailed, FetchRefused
from agent.tools.web.fetch_protocol import FetchRequest
from tests.net.ssrf_corpus import Case, cases
from tests.peers.web import PUBLIC, Answer, WebPeer, fetcher_on, network_of, page, redirect, web_peer

CASES = cases()


def answers_of(case: Case) -> dict[str, Answer]:
    """Redirect hop by hop, each at the path that the one before leads to."""
    places, found = ["/", *case.hops[:-1]], dict[str, Answer]()
    for place, hop in zip(places, case.hops, strict=False):
        found[place if place.startswith("/") else "/" + place.partition("://")[2].partition("/")[2]] = redirect(hop)
    return {"*": page("secret"), **found}


def request(url: str) -> FetchRequest:
    return FetchRequest(url=url, limit_of=lambda _: 10_000)


async def tried(case: Case, peer: WebPeer, *, guarded: bool) -> list[tuple[str, int]]:
    """Run a case and return the connections to anything but the public server."""
    peer.answers = answers_of(case)
    network = network_of(peer, "evil.example", "good.example", others=case.names)
    network.peers = {**network.peers, (PUBLIC, 443): peer.port}
    fetcher = fetcher_on(network, judge=None if guarded else lambda _: None)
    if guarded:
        with pytest.raises(FetchFailed):
            await fetcher.fetch(request(case.url))
    else:
        with contextlib.suppress(FetchFailed):
            await fetcher.fetch(request(case.url))
    return [one for one in network.connects if one not in {(PUBLIC, 80), (PUBLIC, 443)}]


@pytest.mark.sec(44)
async def test_no_forged_request_connects() -> None:
    assert len(CASES) >= 120
    async with web_peer() as peer:
        through = {str(case): reached for case in CASES if (reached := await tried(case, peer, guarded=True))}
    assert through == {}


async def test_without_the_judge_they_connect() -> None:
    """The control: the network, the redirects and the names of the corpus are such that a fetcher without the judge is fooled."""
    bitten: Counter[str] = Counter()
    async with web_peer() as peer:
        for case in CASES:
            if await tried(case, peer, guarded=False):
                bitten[case.family.split()[0]] += 1
    assert sum(bitten.values()) >= 120
    assert {"IPv4", "IPv6", "DNS", "mixed", "rebinding", "redirect", "redirects"} <= set(bitten)


BY_URL = {"octal", "IDNA", "userinfo", "ports", "schemes", "names"}


@pytest.mark.parametrize("case", [case for case in CASES if case.family in BY_URL], ids=str)
@pytest.mark.sec(44)
async def test_what_the_url_alone_shows_is_refused_before_anything_is_looked_up(case: Case) -> None:
    async with web_peer() as peer:
        network = network_of(peer, "good.example")
        with pytest.raises(FetchRefused) as caught:
            await fetcher_on(network).fetch(request(case.url))
    assert str(caught.value)
    assert network.lookups == []
    assert network.connects == []
