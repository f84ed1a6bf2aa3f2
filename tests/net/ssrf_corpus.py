"""Requests that a server-side request forgery makes: each must end without a connection to anything but a public server.

A case is a URL, what DNS says, and what the public server at ``evil.example`` redirects to.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """``hops`` are the places to which ``evil.example`` redirects, one after the other."""

    family: str
    url: str
    names: Mapping[str, Sequence[Sequence[str]]] = field(default_factory=dict)
    hops: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.family}: {self.url} {dict(self.names) or ''} {self.hops or ''}"


_IPV4 = {
    "this network": ["0.0.0.0", "0.1.2.3"],
    "loopback": ["127.0.0.1", "127.0.0.53", "127.255.255.254"],
    "private": ["10.0.0.1", "10.255.255.255", "172.16.0.1", "172.31.255.254", "192.168.0.1", "192.168.178.1"],
    "shared": ["100.64.0.1", "100.100.100.200", "100.127.255.254"],
    "metadata": ["169.254.169.254", "169.254.170.2", "168.63.129.16", "192.0.0.192"],
    "protocol": ["192.0.0.1", "192.0.0.8", "192.0.0.170", "192.88.99.1"],
    "documentation": ["192.0.2.1", "198.51.100.7", "203.0.113.9"],
    "benchmark": ["198.18.0.1", "198.19.255.255"],
    "multicast": ["224.0.0.1", "239.255.255.250"],
    "reserved": ["240.0.0.1", "255.255.255.255"],
}
_IPV6 = {
    "unspecified and loopback": ["::", "::1", "0:0:0:0:0:0:0:1"],
    "mapped": ["::ffff:127.0.0.1", "::ffff:7f00:1", "::ffff:10.0.0.1", "::ffff:93.184.216.34", "::ffff:0:127.0.0.1"],
    "compatible": ["::127.0.0.1", "::7f00:1"],
    "NAT64": ["64:ff9b::7f00:1", "64:ff9b::10.0.0.1", "64:ff9b::a9fe:a9fe", "64:ff9b:1::7f00:1", "64:ff9b:1:fffe::7f00:1"],
    "6to4": ["2002:7f00:1::", "2002:a00:1::1", "2002:c0a8:101::1", "2002:a9fe:a9fe::"],
    "Teredo": ["2001:0:4136:e378:8000:63bf:3fff:fdd2", "2001::1", "2001:0:7f00:1::"],
    "protocol": ["2001:1::1", "2001:2::1", "2001:10::1", "2001:20::1", "2001:30::1"],
    "ISATAP": ["2a00:1450::5efe:127.0.0.1", "2a00:1450::200:5efe:10.0.0.1"],
    "discard": ["100::1", "100:0:0:1::1"],
    "documentation": ["2001:db8::1", "3fff::1", "3fff:fff::1"],
    "segment routing": ["5f00::1"],
    "6bone": ["3ffe::1"],
    "unique local": ["fc00::1", "fd00::1", "fd12:3456:789a::1", "fd00:ec2::254", "fdff:ffff::1"],
    "link-local": ["fe80::1", "fe80::a9fe:a9fe", "febf::1"],
    "site-local": ["fec0::1"],
    "multicast": ["ff02::1", "ff0e::1"],
    "unallocated": ["4000::1", "8000::1", "e000::1"],
    "own network": ["2a02:8100:1:2300::1", "2a02:8100:1:23ff::1"],
}
_SPELLINGS = {
    "decimal": ["http://2130706433/", "http://3232235777/", "http://2852039166/latest/meta-data/"],
    "octal": ["http://0177.0.0.1/", "http://017700000001/", "http://0300.0250.1.1/", "http://0000177.0.0.1/"],
    "hexadecimal": ["http://0x7f.0.0.1/", "http://0x7f000001/", "http://0x7f.1/", "http://0xA9.0xFE.0xA9.0xFE/", "http://0x/"],
    "short": ["http://127.1/", "http://127.0.1/", "http://10.1/", "http://0/", "http://192.168.257/"],
    "too long": ["http://127.0.0.1.1/", "http://256.0.0.1/", "http://4294967297/"],
    "trailing dot": ["http://127.0.0.1./", "http://localhost./", "http://0x7f.1./", "http://127.0.0.1../"],
    "IDNA": [
        "http://１２７.０.０.１/",
        "http://127。0。0。1/",
        "http://①②⑦.⓪.⓪.①/",
        "http://ⓛⓞⓒⓐⓛⓗⓞⓢⓣ/",
        "http://ｌｏｃａｌｈｏｓｔ/",
        "http://٣٢٣٢٢٣٥٧٧٧/",
        "http://xn--/",
        "http://a\u200db/",
        "http://loc\u00adalhost/",
    ],
    "userinfo": [
        "http://good.example@127.0.0.1/",
        "http://good.example:80@127.0.0.1/",
        "http://good.example%40127.0.0.1/",
        "http://127.0.0.1@good.example/",
        "http://:@127.0.0.1/",
    ],
    "confused parsers": [
        "http://good.example\\@127.0.0.1/",
        "http://127.0.0.1\\.good.example/",
        "http://good.example\t.evil/",
        "http://127.0.0.1%00.good.example/",
        "http://127.0.0.1%2f.good.example/",
        "http://[::1/",
        "http://::1/",
        "http://[::1]x/",
        "http://[::1%25eth0]/",
        "http://[fe80::1%25lo]/",
        "http://[127.0.0.1]/",
        "http://[v1.fe80::a]/",
        "http://[[::1]]/",
        "http:///127.0.0.1/",
        "http:127.0.0.1/",
        "http:\\\\127.0.0.1/",
        "//127.0.0.1/",
        "http://good.example\r\nHost: 127.0.0.1/",
        "http://good.example /",
        "http://good.example\u3000/",
        "http://-/",
        "http://%31%32%37.0.0.1/",
    ],
    "names": [
        "http://localhost/",
        "http://LOCALHOST/",
        "http://a.localhost/",
        "http://router/",
        "http://metadata/",
        "http://metadata.google.internal/computeMetadata/v1/",
        "http://nas.local/",
        "http://fritz.box.home.arpa/",
        "http://printer.lan/",
        "http://service.corp/",
        "http://expyuzz4wqqyqhjn.onion/",
    ],
    "ports": [
        "http://good.example:22/",
        "http://good.example:25/",
        "http://good.example:6379/",
        "http://good.example:8080/",
        "https://good.example:8443/",
        "http://good.example:65536/",
        "http://good.example:0/",
        "http://good.example:-1/",
        "http://good.example:８０８０/",
        "http://good.example:80:22/",
        "http://127.0.0.1:80/",
        "https://[::1]:443/",
    ],
    "schemes": [
        "file:///etc/passwd",
        "file://localhost/etc/passwd",
        "ftp://127.0.0.1/",
        "gopher://127.0.0.1:6379/_FLUSHALL",
        "dict://127.0.0.1:11211/stats",
        "data:text/html,hello",
        "javascript:alert(1)",
        "jar:http://127.0.0.1!/",
        "ws://127.0.0.1/",
        "unix:///run/docker.sock",
        "http+unix://%2frun%2fdocker.sock/",
        "about:blank",
        "",
        "127.0.0.1",
    ],
}
_HOPS = [
    "http://127.0.0.1/",
    "http://127.1/",
    "http://[::1]/",
    "http://[::ffff:127.0.0.1]/",
    "http://169.254.169.254/latest/meta-data/",
    "//169.254.169.254/",
    "http://good.example@10.0.0.1/",
    "http://good.example:22/",
    "https://[64:ff9b::7f00:1]/",
    "file:///etc/passwd",
    "gopher://127.0.0.1:6379/_",
    "ftp://127.0.0.1/",
    "data:text/html,x",
    "http://localhost/",
    "http://inside.example/",
    "http://１２７.０.０.１/",
    "\\\\127.0.0.1\\share",
    "http://[::1",
    "http://2130706433/",
]
INSIDE = {"inside.example": [["192.168.0.1"]]}


def cases() -> list[Case]:
    """All of them. ``evil.example`` and ``good.example`` are public."""
    listed = [Case(family=f"IPv4 {kind}", url=f"http://{one}/") for kind, many in _IPV4.items() for one in many]
    listed += [Case(family=f"IPv6 {kind}", url=f"https://[{one}]/") for kind, many in _IPV6.items() for one in many]
    listed += [Case(family=kind, url=one) for kind, many in _SPELLINGS.items() for one in many]
    addresses = [one for many in [*_IPV4.values(), *_IPV6.values()] for one in many]
    listed += [Case(family="DNS", url="http://evil.test.example/", names={"evil.test.example": [[one]]}) for one in addresses]
    listed += [
        Case(family="mixed answers", url="http://two.example/", names={"two.example": [answers]})
        for answers in (
            ["93.184.216.34", "127.0.0.1"],
            ["127.0.0.1", "93.184.216.34"],
            ["93.184.216.34", "::1"],
            ["2606:2800:220:1::1", "fd00::1"],
            ["93.184.216.34", "fe80::1%eth0"],
            ["93.184.216.34", "0x7f.1"],
        )
    ]
    listed += [
        Case(family="rebinding", url=url, names={"rebind.example": answers}, hops=hops)
        for url, answers, hops in (
            ("http://rebind.example/", [["127.0.0.1"], ["93.184.216.34"]], ()),
            ("http://evil.example/", [["192.168.0.1"]], ("http://rebind.example/",)),
            ("http://rebind.example/", [["93.184.216.34"], ["127.0.0.1"]], ("http://rebind.example/again",)),
            ("http://rebind.example/", [["93.184.216.34"], ["93.184.216.34"], ["10.0.0.1"]], ("/one", "/two")),
        )
    ]
    listed += [Case(family="redirect", url="http://evil.example/", names=INSIDE, hops=(hop,)) for hop in _HOPS]
    listed += [
        Case(family="redirects in a row", url="http://evil.example/", names=INSIDE, hops=("/a", "/b", hop)) for hop in _HOPS[:5]
    ]
    return listed
