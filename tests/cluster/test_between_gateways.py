"""What lies between two gateways: it changes what they say, or takes it by TLS."""

from __future__ import annotations

import json
import ssl
from typing import TYPE_CHECKING

import httpx
import pytest

from tests.cluster.pair import until
from tests.peers.between import Between, certificates

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cluster.pair import Pair
    from tests.peers.between import Certificates

pytestmark = pytest.mark.postgres
SESSION = "agent:bob:main"


def cellars_port(pair: Pair) -> int:
    return int(pair.base("cellar").rpartition(":")[2])


def reached(pair: Pair) -> bool:
    return pair.page("kitchen").post("chat.history", session=SESSION).status_code == 200


def stored(pair: Pair, words: str) -> int:
    """Return how many messages with these words were taken."""
    import psycopg

    with psycopg.connect(pair.url, options="-c search_path=homebody") as connection:
        found = connection.execute("SELECT count(*) FROM inbox WHERE payload LIKE %s", (f"%{words}%",)).fetchone()
    return int(found[0]) if found else 0


def test_a_webhook_whose_words_are_changed_between_gateways_is_refused_and_told(pair: Pair) -> None:
    token = pair.facts("kitchen", "hooks", "add", "gate", "--agent", "bob", "--instruction", "somebody is there")["token"]
    key = {"authorization": f"Bearer {token}", "idempotency-key": "once", "content-type": "application/json"}
    hook = f"{pair.base('kitchen')}/hooks/in/gate"
    said, changed = b"let nobody in 4711", b"let all of in 4711"

    def altered(data: bytes) -> bytes:
        return data.replace(said, changed)

    with Between(cellars_port(pair), asked=altered) as line, pair.cellar_at(f"http://127.0.0.1:{line.port}"):
        seen: list[httpx.Response] = []

        def refused() -> bool:
            seen.append(
                httpx.post(
                    hook, content=json.dumps({"words": said.decode()}), headers={**key, "idempotency-key": str(len(seen))}
                )
            )
            return seen[-1].status_code == 503

        until(refused)
        assert "is changed on the way" in seen[-1].text
        assert seen[-1].headers["retry-after"]
    assert stored(pair, changed.decode()) == 0
    assert "other-body" in (pair.root / "cellar.log").read_text()
    until(lambda: httpx.post(hook, content=json.dumps({"words": said.decode()}), headers=key).status_code in {200, 202})
    until(lambda: stored(pair, said.decode()) >= 1)


def test_an_answer_that_is_changed_between_gateways_is_not_believed(pair: Pair) -> None:
    pair.run("kitchen", "agent", "--agent", "bob", "-m", "the gate is of wood")

    def altered(data: bytes) -> bytes:
        return data.replace(b"of wood", b"of iron")

    with Between(cellars_port(pair), answered=altered) as line, pair.cellar_at(f"http://127.0.0.1:{line.port}"):
        until(lambda: not reached(pair))
        answer = pair.page("kitchen").post("chat.history", session=SESSION)
        assert answer.status_code == 503
        assert "changed on the way" in answer.text
        assert "of iron" not in answer.text
    until(lambda: reached(pair))
    assert "of wood" in pair.page("kitchen").post("chat.history", session=SESSION).text


def context(made: Certificates) -> ssl.SSLContext:
    given = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    given.load_cert_chain(made.chain, made.key)
    return given


def test_gateways_reach_each_other_by_tls_with_an_authority_of_ones_own(pair: Pair) -> None:
    with (
        Between(cellars_port(pair), context=context(pair.certificates)) as line,
        pair.cellar_at(f"https://127.0.0.1:{line.port}"),
    ):
        until(lambda: reached(pair) and line.carried > 0)
    until(lambda: reached(pair))


def test_a_certificate_that_no_known_authority_signed_is_refused_and_told(pair: Pair, tmp_path: Path) -> None:
    made = context(certificates(tmp_path))
    with Between(cellars_port(pair), context=made) as line, pair.cellar_at(f"https://127.0.0.1:{line.port}"):
        until(lambda: not reached(pair))
        told = pair.page("kitchen").post("chat.history", session=SESSION).text
        assert "certificate verify failed" in told
        assert line.carried == 0
    until(lambda: reached(pair))
