"""Files of one reply that go out as one message where the channel can, in the order in which they were asked for."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from hypothesis import given, settings
from hypothesis import strategies as st

from channels.messages import ChatAddress, OutboundFile
from channels.silent import SilentChannel
from channels.telegram.channel import TelegramChannel
from channels.telegram.settings import TelegramSettings
from gateway.ledger.rows import OutboxRow
from gateway.ledger.values import read_payload
from gateway.media.outgoing import Waiting, gathered
from gateway.outbound.replying import render, without_secrets
from tests.peers.hasty import FastClock
from tests.properties import examples

if TYPE_CHECKING:
    from collections.abc import Sequence

TELEGRAM = TelegramChannel(TelegramSettings.model_validate({"botToken": "1:a"}), "default", clock=FastClock())
TYPES = st.sampled_from(["image/jpeg", "image/png", "image/gif", "video/mp4", "audio/mpeg", "audio/ogg", "text/plain"])
FILES = st.lists(st.tuples(TYPES, st.sampled_from([1, 9_000_000, 11_000_000, 40_000_000]), st.text(max_size=3)), max_size=25)


def waiting(files: Sequence[tuple[str, int, str]]) -> list[Waiting]:
    return [
        Waiting(enclosure=OutboundFile(path=Path(str(number)), name=str(number), media_type=kind), caption=caption, size=size)
        for number, (kind, size, caption) in enumerate(files)
    ]


@given(FILES)
@settings(max_examples=examples(200))
def test_albums_keep_the_order_lose_nothing_and_stay_within_the_limits(files: list[tuple[str, int, str]]) -> None:
    made = gathered(waiting(files), TELEGRAM)
    flat = [(path, caption) for one in made for path, caption in _in(one)]
    assert flat == [(Path(str(number)), caption) for number, (_, _, caption) in enumerate(files)]
    for one in made:
        members = [files[int(str(path))] for path in one.enclosure.paths]
        assert len(members) <= 10
        assert len(members) == 1 or sum(size for _, size, _ in members) <= 50_000_000
        kinds = {TELEGRAM.album_kind(OutboundFile(path=Path(), name="", media_type=kind), size) for kind, size, _ in members}
        assert len(kinds) == 1
        assert len(members) == 1 or "" not in kinds


def _in(one: Waiting) -> list[tuple[Path, str]]:
    return [(one.enclosure.path, one.caption), *((each.path, each.caption) for each in one.enclosure.album)]


def test_a_channel_without_albums_gets_each_file_alone() -> None:
    files = waiting([("image/jpeg", 1, "a"), ("image/jpeg", 1, "b")])
    assert gathered(files, SilentChannel()) == files


def row(folder: Path, *names: str) -> OutboxRow:
    made = [OutboundFile(path=folder / name, name=name, media_type="image/png", caption=f"about {name}") for name in names]
    first = OutboundFile(path=folder / names[0], name=names[0], media_type="image/png", album=tuple(made[1:]))
    at = FastClock().now()
    return OutboxRow(
        id=1,
        key="k",
        turn="t",
        conversation=ChatAddress(channel="telegram", kind="direct", id="42"),
        text=f"about {names[0]}",
        reply_to=None,
        state="ready",
        attempt=0,
        doubts=0,
        recorded=None,
        not_before=at,
        expires=at,
        enclosure=first,
    )


def test_a_file_of_an_album_that_is_gone_is_named_and_the_others_are_sent(tmp_path: Path) -> None:
    for name in ("b", "c"):
        (tmp_path / name).touch()
    shown = render(TELEGRAM, row(tmp_path, "a", "b", "c"))
    assert shown.enclosure is not None
    assert [path.name for path in shown.enclosure.paths] == ["b", "c"]
    assert shown.text == "about a\n\nabout b\n\n📎 a (the file no longer exists)"
    assert [one.caption for one in shown.enclosure.album] == ["about c"]


def test_where_no_file_is_left_all_of_it_is_text(tmp_path: Path) -> None:
    shown = render(TELEGRAM, row(tmp_path, "a", "b"))
    assert shown.enclosure is None
    assert shown.text == ("about a\n\n📎 a (the file no longer exists)\n\nabout b\n\n📎 b (the file no longer exists)")


def test_secrets_are_taken_out_of_every_caption(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).touch()
    clean = without_secrets(render(TELEGRAM, row(tmp_path, "a", "b")), lambda text: text.replace("about", "…"))
    assert clean.enclosure is not None
    assert (clean.text, clean.enclosure.album[0].caption) == ("… a", "… b")


def test_rows_of_before_albums_are_read() -> None:
    old = '{"buttons":[],"enclosure":{"path":"/a/b","name":"b","type":"image/png"}}'
    assert read_payload(old) == ((), OutboundFile(path=Path("/a/b"), name="b", media_type="image/png"))
