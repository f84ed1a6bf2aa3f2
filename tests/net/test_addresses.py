"""The judgement of addresses beside IANA's registries, and the judgement of URLs."""

from __future__ import annotations

from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.errors import FetchRefused
from gateway.net.ip_addresses import GLOBAL_UNICAST, IPV6_REFUSED, parsed, refusal, same_site
from gateway.net.targets import place_of, target_of

IANA = """
0.0.0.0/8           "This network"                     no
10.0.0.0/8          Private-Use                        no
100.64.0.0/10       Shared Address Space               no
127.0.0.0/8         Loopback                           no
169.254.0.0/16      Link Local                         no
172.16.0.0/12       Private-Use                        no
192.0.0.0/24        IETF Protocol Assignments          no
192.0.0.0/29        IPv4 Service Continuity Prefix     no
192.0.0.8/32        IPv4 dummy address                 no
192.0.0.9/32        Port Control Protocol Anycast      yes
192.0.0.10/32       TURN Anycast                       yes
192.0.0.170/31      NAT64/DNS64 Discovery              no
192.0.2.0/24        Documentation (TEST-NET-1)         no
192.31.196.0/24     AS112-v4                           yes
192.52.193.0/24     AMT                                yes
192.88.99.0/24      Deprecated (6to4 Relay Anycast)    no
192.168.0.0/16      Private-Use                        no
192.175.48.0/24     Direct Delegation AS112 Service    yes
198.18.0.0/15       Benchmarking                       no
198.51.100.0/24     Documentation (TEST-NET-2)         no
203.0.113.0/24      Documentation (TEST-NET-3)         no
224.0.0.0/4         Multicast                          no
240.0.0.0/4         Reserved                           no
255.255.255.255/32  Limited Broadcast                  no
::1/128             Loopback Address                   no
::/128              Unspecified Address                no
::ffff:0:0/96       IPv4-mapped Address                no
64:ff9b::/96        IPv4-IPv6 Translat.                yes
64:ff9b:1::/48      IPv4-IPv6 Translat.                no
100::/64            Discard-Only Address Block         no
100:0:0:1::/64      Dummy IPv6 Prefix                  no
2001::/23           IETF Protocol Assignments          no
2001::/32           TEREDO                             no
2001:1::1/128       Port Control Protocol Anycast      yes
2001:1::2/128       TURN Anycast                       yes
2001:1::3/128       DNS-SD Anycast                     yes
2001:2::/48         Benchmarking                       no
2001:3::/32         AMT                                yes
2001:4:112::/48     AS112-v6                           yes
2001:10::/28        Deprecated (ORCHID)                no
2001:20::/28        ORCHIDv2                           yes
2001:30::/28        Drone Remote ID                    yes
2001:db8::/32       Documentation                      no
2002::/16           6to4                               no
2620:4f:8000::/48   Direct Delegation AS112 Service    yes
3fff::/20           Documentation                      no
5f00::/16           Segment Routing (SRv6) SIDs        no
fc00::/7            Unique-Local                       no
fe80::/10           Link-Local Unicast                 no
ff00::/8            Multicast                          no
"""
"""IANA's registries of special-purpose addresses, and multicast: block, name, whether it is globally reachable."""
ROWS = [(line.split()[0], " ".join(line.split()[1:-1]), line.split()[-1] == "yes") for line in IANA.strip().splitlines()]
REFUSED_ANYHOW = {
    "192.0.0.9/32",
    "192.0.0.10/32",
    "64:ff9b::/96",
    "2001:1::1/128",
    "2001:1::2/128",
    "2001:1::3/128",
    "2001:3::/32",
    "2001:4:112::/48",
    "2001:20::/28",
    "2001:30::/28",
}
"""Reachable by the registry, and refused here: no web page is served there, and NAT64 leads to any IPv4 address."""


@pytest.mark.parametrize(("block", "name", "reachable"), ROWS, ids=[f"{block} {name}" for block, name, _ in ROWS])
def test_the_judgement_agrees_with_the_registry(block: str, name: str, reachable: bool) -> None:
    network = ip_network(block)
    for offset in {0, 1, network.num_addresses // 2, network.num_addresses - 1}:
        address = network[min(offset, network.num_addresses - 1)]
        if reachable and block not in REFUSED_ANYHOW:
            assert refusal(address) is None, name
        else:
            assert refusal(address), name


def test_each_block_of_ours_is_in_the_registry() -> None:
    known = {ip_network(block) for block, _, _ in ROWS}
    ours = set(IPV6_REFUSED) - {IPv6Network("3ffe::/16")}
    assert ours <= known
    assert all(block.subnet_of(GLOBAL_UNICAST) for block in IPV6_REFUSED)


@given(st.integers(0, 2**128 - 1))
@pytest.mark.sec(44)
def test_no_ipv6_address_outside_global_unicast_passes(number: int) -> None:
    address = ip_address(number.to_bytes(16))
    if address not in GLOBAL_UNICAST:
        assert refusal(address)


@given(st.ip_addresses(v=4))
def test_no_private_ipv4_address_passes_whatever_stands_for_it(address: object) -> None:
    inside = any(
        address in IPv4Network(one)
        for one in ("10.0.0.0/8", "127.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "169.254.0.0/16")
    )
    if inside:
        assert refusal(address)  # type: ignore[arg-type]
    for written in (f"::ffff:{address}", f"64:ff9b::{address}", f"::{address}"):
        assert refusal(parsed(written))  # type: ignore[arg-type]


@pytest.mark.parametrize("text", ["", "1.2.3", "0x7f.1", "127.1", "010.0.0.1", "fe80::1%eth0", "::1%", "1.2.3.4 ", "１.2.3.4"])
def test_only_the_usual_form_of_an_address_is_read(text: str) -> None:
    assert parsed(text) is None


def test_the_network_of_the_home_is_told_apart() -> None:
    home = ip_address("2a02:8100:1:2300::5")
    assert same_site(home, ip_address("2a02:8100:1:23ff::1"))
    assert not same_site(home, ip_address("2a02:8100:1:2400::1"))
    assert not same_site(None, home)
    assert same_site(ip_address("93.184.216.34"), ip_address("93.184.216.34"))
    assert not same_site(ip_address("93.184.216.34"), ip_address("93.184.216.35"))


@pytest.mark.parametrize(
    ("url", "canonical"),
    [
        ("https://example.org", "https://example.org/"),
        ("HTTPS://Example.ORG:443/a/../b?c=d#e", "https://example.org/a/../b?c=d"),
        (" http://example.org?q=1\n", "http://example.org/?q=1"),
        ("https://bücher.example/straße?q=ü", "https://xn--bcher-kva.example/stra%C3%9Fe?q=%C3%BC"),
        ("http://example.org./", "http://example.org/"),
        ("http://good.example#@127.0.0.1/", "http://good.example/"),
        ("https://1.1.1.1/", "https://1.1.1.1/"),
        ("https://[2606:4700:4700:0::1111]/", "https://[2606:4700:4700::1111]/"),
        ("http://my_site.example.com:443/100%25", "http://my_site.example.com:443/100%25"),
    ],
)
def test_a_url_is_brought_into_one_form(url: str, canonical: str) -> None:
    assert str(target_of(url)) == canonical
    assert str(target_of(canonical)) == canonical


@given(st.text(max_size=60))
def test_any_text_is_a_target_or_refused_with_a_reason(text: str) -> None:
    for url in (text, f"http://{text}", f"https://example.org/{text}"):
        try:
            target = target_of(url)
        except FetchRefused as error:
            assert str(error)  # noqa: PT017 (either is right)
        else:
            assert str(target).isascii()
            assert str(target_of(str(target))) == str(target)
            assert not set(target.host + target.path) & set(" \r\n\t\\@#\x00") or "@" in target.path


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("http://good.example@127.0.0.1/", "a user name or password before the host"),
        ("http://good.example:pass@127.0.0.1:80/", "a user name or password before the host"),
        ("http://good.example\\@127.0.0.1/", "blanks, control characters or backslashes"),
        ("http://0x7f.1/", "an address in an unusual form"),
        ("http://good.example:22/", "port 22 is not fetched from"),
        ("http://nas.local/", "a name of a local network"),
        ("ftp://good.example/", "no http or https address"),
        ("https://good.example/" + "a" * 4000, "longer than 4,000 characters"),
    ],
)
def test_what_is_wrong_with_a_url_is_said(url: str, told: str) -> None:
    with pytest.raises(FetchRefused, match=told):
        target_of(url)


def test_a_place_is_written_as_targets_have_it() -> None:
    assert place_of("NAS.lan:8080") == "nas.lan:8080"
    assert place_of("[fd00:0::1]:80") == "[fd00::1]:80"
    for wrong in ("nas.lan", "nas.lan:", "http://nas.lan:80", "nas.lan:80/x", "*.lan:80", ""):
        with pytest.raises(FetchRefused):
            place_of(wrong)
