"""Who is let in: codes, cookies, roles, revoking; and what another site, a rebound name or a viewer cannot do."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime, timedelta
from http.cookies import SimpleCookie
from typing import TYPE_CHECKING

import pytest

from gateway.base.errors import StorageFailed, UsageError
from gateway.page.browsers import CODE_LIFETIME, COOKIE_LIFETIME, FILE_NAME, MOST_BROWSERS, Browsers, browser_name
from gateway.page.calls import CALLS, allowed
from memory.embedding.engines.bag_of_words import BagOfWords
from memory.workspace_memory import WorkspaceMemory
from tests.page.conftest import PageVillage, ServedPage
from tests.sampling import parametrize_some

if TYPE_CHECKING:
    from pathlib import Path

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


class Clock:
    def __init__(self) -> None:
        self.time = NOON

    def now(self) -> datetime:
        return self.time


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def browsers(tmp_path: Path, clock: Clock) -> Browsers:
    return Browsers(tmp_path, clock.now)


@pytest.mark.sec(18)
def test_a_code_lets_one_browser_in_once(browsers: Browsers) -> None:
    code, _ = browsers.code()
    browser, cookie = browsers.enter(code, "Mozilla/5.0 (Android 14) Firefox/140.0")
    assert browsers.find(cookie) == browser
    assert (browser.role, browser.name) == ("owner", "Firefox on Android")
    with pytest.raises(UsageError, match="cannot be used"):
        browsers.enter(code, "")


def test_a_code_holds_for_five_minutes_and_a_cookie_for_thirty_days(browsers: Browsers, clock: Clock) -> None:
    code, _ = browsers.code()
    late, _ = browsers.code("viewer")
    clock.time += CODE_LIFETIME - timedelta(seconds=1)
    _, cookie = browsers.enter(code, "")
    clock.time += timedelta(seconds=1)
    with pytest.raises(UsageError):
        browsers.enter(late, "")
    clock.time += COOKIE_LIFETIME - timedelta(seconds=2)
    assert browsers.find(cookie) is not None
    clock.time += timedelta(seconds=2)
    assert browsers.find(cookie) is None
    assert browsers.all() == []


def test_a_clock_that_was_set_back_lets_no_old_code_in(browsers: Browsers, clock: Clock) -> None:
    code, _ = browsers.code()
    clock.time -= timedelta(days=1)
    with pytest.raises(UsageError):
        browsers.enter(code, "")


def test_neither_a_code_nor_a_cookie_is_in_the_file(browsers: Browsers) -> None:
    code, _ = browsers.code()
    _, cookie = browsers.enter(code, "")
    unused, _ = browsers.code()
    text = browsers.path.read_text()
    assert all(secret not in text for secret in (code, cookie, unused))
    assert browsers.path.stat().st_mode & 0o777 == 0o600


def test_a_file_that_cannot_be_read_lets_nobody_in_and_is_named(browsers: Browsers) -> None:
    code, _ = browsers.code()
    _, cookie = browsers.enter(code, "")
    browsers.path.write_text("{")
    assert browsers.find(cookie) is None
    with pytest.raises(StorageFailed, match=FILE_NAME):
        browsers.all()


def test_a_role_that_was_made_up_lets_nobody_in(browsers: Browsers) -> None:
    _, cookie = browsers.enter(browsers.code("viewer")[0], "")
    told = json.loads(browsers.path.read_text())
    told["browsers"][0]["role"] = "root"
    browsers.path.write_text(json.dumps(told))
    assert browsers.find(cookie) is None


def test_the_browser_that_was_used_least_makes_room(browsers: Browsers, clock: Clock) -> None:
    cookies = []
    for _ in range(MOST_BROWSERS + 1):
        clock.time += timedelta(seconds=1)
        cookies.append(browsers.enter(browsers.code()[0], "")[1])
    assert browsers.find(cookies[0]) is None
    assert browsers.find(cookies[1]) is not None
    assert len(browsers.all()) == MOST_BROWSERS


def test_revoking_ends_a_browser_and_unused_codes(browsers: Browsers) -> None:
    browser, cookie = browsers.enter(browsers.code()[0], "")
    waiting, _ = browsers.code()
    assert browsers.revoke(browser.id) == [browser]
    assert browsers.find(cookie) is None
    with pytest.raises(UsageError):
        browsers.enter(waiting, "")
    with pytest.raises(UsageError, match="no browser"):
        browsers.revoke(browser.id)


@pytest.mark.parametrize(
    ("agent", "name"),
    [
        (
            "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0 Safari/537.36",
            "Chrome on Linux",
        ),
        ("Mozilla/5.0 (iPhone; CPU iPhone OS 18_0) AppleWebKit/605 Version/18.0 Mobile Safari/604.1", "Safari on iPhone"),
        ("Mozilla/5.0 (Windows NT 10.0) Chrome/140.0 Safari/537.36 Edg/140.0", "Edge on Windows"),
        ("curl/8\x00<b>\x1b[31m", "curl/8<b>[31m"),
        ("", "a browser"),
    ],
)
def test_a_browser_is_named_in_two_words(agent: str, name: str) -> None:
    assert browser_name(agent) == name


@pytest.mark.sec(1)
async def test_the_page_may_talk_to_its_own_gateway_alone(served: ServedPage) -> None:
    tab = await served.tab()
    for path in ("/", "/enter"):
        answer = await tab.client.get(path)
        rules = dict(rule.strip().partition(" ")[::2] for rule in answer.headers["content-security-policy"].split(";"))
        assert (rules["default-src"], rules["connect-src"], rules["form-action"]) == ("'none'", "'self'", "'self'")
        assert (rules["base-uri"], rules["frame-ancestors"]) == ("'none'", "'none'")
        assert answer.headers["referrer-policy"] == "no-referrer"


@pytest.mark.sec(18)
async def test_the_cookie_is_out_of_reach_of_scripts_and_other_sites(served: ServedPage) -> None:
    tab = served.stranger()
    made = await served.house.page.open()
    answer = await tab.enter(made["code"])
    [(name, cookie)] = SimpleCookie(answer.headers["set-cookie"]).items()
    assert name == f"homebody-{served.port}"
    assert (cookie["httponly"], cookie["samesite"], cookie["path"], cookie["domain"]) == (True, "strict", "/", "")
    assert int(cookie["max-age"]) == COOKIE_LIFETIME.total_seconds()
    assert cookie.value not in answer.text
    assert tab.me["role"] == "owner"


async def test_behind_tls_the_cookie_is_bound_to_its_host(tmp_path: Path) -> None:
    village = PageVillage(tmp_path, gateway={"trustedProxies": ["127.0.0.1"], "allowedHosts": ["home.example"]})
    async with village.page() as served:
        made = await served.house.page.open()
        tab = served.stranger()
        headers = {"host": "home.example", "x_forwarded_proto": "https", "origin": "https://home.example"}
        answer = await tab.post("/enter", {"code": made["code"]}, **headers)
        assert answer.status_code == 200
        [(name, cookie)] = SimpleCookie(answer.headers["set-cookie"]).items()
        assert (name, cookie["secure"], cookie["domain"]) == ("__Host-homebody", True, "")
        plain = await tab.post("/enter", {"code": "x"}, **{**headers, "origin": "http://home.example"})
        assert (plain.status_code, plain.json()["reason"]) == (403, "foreign-origin")


async def test_nobody_is_told_anything_without_a_cookie(served: ServedPage) -> None:
    tab = served.stranger()
    for path in ("/page/me", "/page/events", "/page/file/" + "0" * 32, "/page/x"):
        assert (await tab.client.get(path)).status_code == 401
    for path in ("/page/call/status", "/page/upload"):
        assert (await tab.post(path)).status_code == 401
    tab.client.cookies.set(f"homebody-{served.port}", "made-up")
    assert (await tab.client.get("/page/me")).status_code == 401


@pytest.mark.sec(18)
async def test_a_replayed_code_is_refused(served: ServedPage) -> None:
    made = await served.house.page.open()
    assert (await served.stranger().enter(made["code"])).status_code == 200
    again = await served.stranger().enter(made["code"])
    assert (again.status_code, again.json()["error"]["hint"]) == (
        403,
        "A code holds for 5 minutes and for one browser. Make another: homebody open",
    )
    for wrong in ("", "x" * 5000, None, 7, ["a"], {"a": 1}, "\ud800"):
        assert (await served.stranger().post("/enter", {"code": wrong})).status_code in {400, 403}


FOREIGN = [
    {"origin": "https://evil.example", "sec_fetch_site": "cross-site"},
    {"origin": "null", "sec_fetch_site": "cross-site"},
    {"origin": "", "sec_fetch_site": "cross-site"},
    {"origin": "", "sec_fetch_site": ""},
    {"origin": "http://127.0.0.1:1", "sec_fetch_site": "same-site"},
    {"origin": "http://localhost:9", "sec_fetch_site": ""},
    {"sec_fetch_site": "same-site"},
]


@pytest.mark.sec(18)
@parametrize_some(3, "headers", FOREIGN, ids=str)
async def test_another_site_can_change_nothing_even_with_the_cookie(served: ServedPage, headers: dict[str, str]) -> None:
    tab = await served.tab()
    for path in ("/page/call/page.revoke", "/page/upload", "/enter"):
        answer = await tab.post(path, {"browser": "all", "code": "x"}, **headers)
        assert (answer.status_code, answer.json()["reason"]) == (403, "foreign-origin")
    assert len(await served.house.page.list_browsers()) == 1


async def test_an_origin_that_may_call_the_api_may_not_use_the_page(tmp_path: Path) -> None:
    village = PageVillage(tmp_path, gateway={"allowedOrigins": ["https://app.example"]})
    async with village.page() as served:
        tab = await served.tab()
        answer = await tab.post("/page/call/status", origin="https://app.example", sec_fetch_site="cross-site")
        assert answer.json()["reason"] == "foreign-origin"


async def test_https_is_its_own_only_behind_a_proxy_that_says_so(served: ServedPage) -> None:
    """Without that, ``https`` of its host is another program on this machine, which the browser keeps apart from it, too."""
    tab = await served.tab()
    answer = await tab.post("/page/call/status", origin=f"https://127.0.0.1:{served.port}")
    assert (answer.status_code, answer.json()["reason"]) == (403, "foreign-origin")
    assert "X-Forwarded-Proto" in answer.json()["mend"]
    said = await tab.post("/page/call/status", origin=f"https://127.0.0.1:{served.port}", x_forwarded_proto="https")
    assert said.json()["reason"] == "untrusted-proxy"


async def test_a_viewer_does_not_let_the_doctor_ask_other_machines(served: ServedPage) -> None:
    viewer = await served.tab(viewer=True)
    for given in ({"offline": False}, {"offline": 0}, {"offline": None}):
        answer = await viewer.post("/page/call/doctor.findings", given)
        assert (answer.status_code, answer.json()["reason"]) == (403, "viewer")
    assert allowed("doctor.findings", "viewer", {}) is allowed("doctor.findings", "viewer", {"offline": True}) is True
    assert allowed("doctor.findings", "owner", {"offline": False}) is True


async def test_a_viewer_searches_memory_by_words_alone(village: PageVillage) -> None:
    embedder = BagOfWords()
    async with village.page() as served:
        memory = served.house.agents["main"].memory
        assert isinstance(memory, WorkspaceMemory)
        memory.embedder = embedder
        (memory.sources.workspace / "MEMORY.md").write_text("Alice drinks jasmine tea\n")
        await memory.sync()
        viewer = await served.tab(viewer=True)
        found = await viewer.call("memory.explain", agent="main", query="jasmine")
        assert [one["path"] for one in found["results"]] == ["MEMORY.md"]
        assert embedder.calls["query"] == 0
        refused = await viewer.post("/page/call/memory.explain", {"agent": "main", "query": "x", "by_words": False})
        assert (refused.status_code, refused.json()["reason"]) == (403, "viewer")


@pytest.mark.sec(18)
@pytest.mark.parametrize("csrf", ["", "x", "0" * 32, "~" * 32])
async def test_a_change_without_the_value_of_the_page_is_refused(served: ServedPage, csrf: str) -> None:
    tab = await served.tab()
    for path in ("/page/call/status", "/page/upload"):
        assert (await tab.post(path, x_homebody_csrf=csrf)).json()["reason"] == "no-csrf"


async def test_the_value_of_another_browser_does_not_count(served: ServedPage) -> None:
    tab, other = await served.tab(), await served.tab()
    assert (await tab.post("/page/call/status", x_homebody_csrf=other.csrf)).json()["reason"] == "no-csrf"


@pytest.mark.sec(18)
@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.nip.io", "localhost.evil.example:80", "127.0.0.1"])
async def test_a_rebound_name_sees_nothing_of_the_page(served: ServedPage, host: str) -> None:
    tab = await served.tab()
    for path in ("/", "/enter", "/page/me", "/static/x/app.js"):
        answer = await tab.client.get(path, headers={"host": host})
        assert (answer.status_code, answer.json()["reason"]) == (403, "unknown-host")


@pytest.mark.sec(18)
async def test_a_viewer_may_look_and_change_nothing(served: ServedPage) -> None:
    viewer = await served.tab(viewer=True)
    assert viewer.me["role"] == "viewer"
    assert (await viewer.call("page.browsers"))[0]["role"] == "viewer"
    for name, role in CALLS.items():
        if role == "owner":
            answer = await viewer.post(f"/page/call/{name}", {})
            assert (answer.status_code, answer.json()["reason"]) == (403, "viewer"), name
    assert (await viewer.post("/page/upload?name=a", b"x")).status_code == 403


async def test_calls_that_are_not_in_the_table_do_not_exist_for_the_page(served: ServedPage) -> None:
    tab = await served.tab()
    known = {**served.house.status.calls(), **served.house.page.calls()}
    assert {"page.open", "settings.reload"} <= set(known)
    for name in [*(set(known) - set(CALLS)), "__class__", "../status", "status/", "%2e%2e", "chat.say\x00"]:
        answer = await tab.post(f"/page/call/{name}".replace("\x00", "%00"), {})
        assert answer.status_code == 404, name


async def test_each_call_of_the_table_exists(served: ServedPage) -> None:
    tab = await served.tab()
    for name in CALLS:
        answer = await tab.post(f"/page/call/{name}", {"no-such-argument": 1})
        assert answer.json().get("reason") == "bad-call" or "not called so" in answer.text, name


async def test_revoking_ends_what_is_open_at_once(served: ServedPage) -> None:
    tab, other = await served.tab(), await served.tab()
    async with tab.events() as events, other.events():
        await other.call("page.revoke", browser=tab.me["browser"])
        async with asyncio.timeout(10):
            assert [event async for event in events if event["data"] is not None] == []
    assert (await tab.client.get("/page/me")).status_code == 401
    assert (await other.client.get("/page/me")).status_code == 200


async def test_the_page_is_not_served_where_a_setting_says_so(tmp_path: Path) -> None:
    village = PageVillage(tmp_path, gateway={"page": {"enabled": False}})
    async with village.page() as served:
        answer = await served.stranger().client.get("/")
        assert (answer.status_code, answer.json()["mend"]) == (404, "homebody config set gateway.page.enabled true")


async def test_a_page_that_is_open_to_the_network_is_served_only_where_a_setting_says_so(tmp_path: Path) -> None:
    assert PageVillage(tmp_path).settings.gateway.serves_page
    assert not PageVillage(tmp_path, gateway={"bind": "lan"}).settings.gateway.serves_page
    assert PageVillage(tmp_path, gateway={"bind": "lan", "page": {"enabled": True}}).settings.gateway.serves_page


async def test_the_own_scripts_are_loaded_and_no_other_site_may_load_them(served: ServedPage) -> None:
    tab = served.stranger()
    path = "/static/x/app.js"  # browsers send an origin with scripts that are modules
    for headers, status in (
        ({"origin": tab.base, "sec-fetch-site": "same-origin"}, 200),
        ({"sec-fetch-site": "same-origin"}, 200),
        ({}, 200),
        ({"origin": "https://evil.example", "sec-fetch-site": "cross-site"}, 403),
        ({"sec-fetch-site": "cross-site"}, 403),
    ):
        assert (await tab.client.get(path, headers=headers)).status_code == status, headers


async def test_a_page_that_is_left_in_the_midst_of_a_request_is_no_fault(
    served: ServedPage, caplog: pytest.LogCaptureFixture
) -> None:
    tab = await served.tab()
    cookie = tab.client.cookies[f"homebody-{served.port}"]
    head = (
        f"POST /page/call/chat.sessions HTTP/1.1\r\nHost: 127.0.0.1:{served.port}\r\nCookie: homebody-{served.port}={cookie}\r\n"
        f"Origin: {served.base}\r\nX-Homebody-Csrf: {tab.csrf}\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n"
    )
    _, writer = await asyncio.open_connection("127.0.0.1", served.port)
    writer.write(head.encode() + b"{")
    await writer.drain()
    await asyncio.sleep(0.3)
    writer.close()
    await tab.call("chat.sessions")
    await asyncio.sleep(0.3)
    assert [record for record in caplog.records if record.exc_info or record.levelname == "ERROR"] == []
