"""Model files from a hub on loopback: whole, cut, changed, damaged, too large."""

from __future__ import annotations

import asyncio
import fcntl
import hashlib
import resource
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory.embedding.engines.model_download import HubFile, download
from memory.errors import EmbeddingFailed

if TYPE_CHECKING:
    from tests.peers.embeddings import EmbeddingPeer

FILE = HubFile.parse("hf:owner/repo/model-Q8_0.gguf")
CONTENT = b"GGUF" + bytes(range(256)) * 20_000


async def get(peer: EmbeddingPeer, folder: Path, **how: Any) -> Path:
    return await download(FILE, cache_dir=folder, hub_url=peer.url, pause=0.0, **how)


@pytest.fixture(autouse=True)
def stocked(peer: EmbeddingPeer) -> None:
    peer.hub["owner/repo/model-Q8_0.gguf"] = CONTENT


def leftovers(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob("*") if path.is_file())


async def test_a_file_is_fetched_once_and_progress_is_told(peer: EmbeddingPeer, tmp_path: Path) -> None:
    heard: list[tuple[str, int, int | None]] = []
    place = await get(peer, tmp_path, progress=lambda *told: heard.append(told))
    assert place == tmp_path / "owner--repo" / "model-Q8_0.gguf"
    assert place.read_bytes() == CONTENT
    assert heard[-1] == ("model-Q8_0.gguf", len(CONTENT), len(CONTENT))
    assert [done for _, done, _ in heard] == sorted(done for _, done, _ in heard)
    assert await get(peer, tmp_path) == place
    assert peer.hub_ranges == [""]
    assert leftovers(tmp_path) == ["model-Q8_0.gguf"]


async def test_a_cut_connection_is_continued_where_it_broke_off(peer: EmbeddingPeer, tmp_path: Path) -> None:
    peer.hub_cut_after = [1_000_000, 2_000_000, 500_000]
    assert (await get(peer, tmp_path)).read_bytes() == CONTENT
    assert len(peer.hub_ranges) == 4
    starts = [int(asked.removeprefix("bytes=").rstrip("-") or 0) for asked in peer.hub_ranges]
    assert starts == sorted(starts)
    assert starts[-1] > 2_000_000


async def test_a_later_start_continues_what_an_earlier_one_left(peer: EmbeddingPeer, tmp_path: Path) -> None:
    peer.hub_cut_after = [1_000_000, 0, 0, 0, 0, 0, 0]
    with pytest.raises(EmbeddingFailed, match="next attempt continues it") as failed:
        await get(peer, tmp_path)
    assert failed.value.passing
    peer.hub_cut_after = []
    peer.hub_ranges.clear()
    assert (await get(peer, tmp_path)).read_bytes() == CONTENT
    assert peer.hub_ranges == ["bytes=1000000-"]


async def test_a_file_that_changed_in_between_is_begun_anew(peer: EmbeddingPeer, tmp_path: Path) -> None:
    peer.hub_cut_after = [1_000_000, 0, 0, 0, 0, 0, 0]
    with pytest.raises(EmbeddingFailed):
        await get(peer, tmp_path)
    peer.hub_cut_after = []
    newer = b"GGUF newer" + CONTENT[::-1]
    peer.hub["owner/repo/model-Q8_0.gguf"] = newer
    assert (await get(peer, tmp_path)).read_bytes() == newer


async def test_a_damaged_file_is_thrown_away(peer: EmbeddingPeer, tmp_path: Path) -> None:
    peer.hub_sha["owner/repo/model-Q8_0.gguf"] = hashlib.sha256(b"another").hexdigest()
    with pytest.raises(EmbeddingFailed, match="is damaged"):
        await get(peer, tmp_path)
    assert leftovers(tmp_path) == []


async def test_a_file_that_the_hub_does_not_have(peer: EmbeddingPeer, tmp_path: Path) -> None:
    missing = HubFile.parse("hf:owner/repo/other.gguf")
    with pytest.raises(EmbeddingFailed, match="answered 404") as failed:
        await download(missing, cache_dir=tmp_path, hub_url=peer.url, pause=0.0)
    assert not failed.value.passing
    path = await download(missing, cache_dir=tmp_path, hub_url=peer.url, pause=0.0, may_be_missing=True)
    assert not path.exists()


async def test_a_disk_without_room_is_told_before_anything_is_fetched(peer: EmbeddingPeer, tmp_path: Path) -> None:
    with pytest.raises(EmbeddingFailed, match=r"needs 4 MB in .*, where 200 MB are free") as failed:
        await get(peer, tmp_path, free_bytes=lambda _folder: 200 << 20)
    assert "modelCacheDir" in failed.value.hint
    assert peer.hub_ranges == []


async def test_a_disk_that_fills_up_is_given_its_space_back(peer: EmbeddingPeer, tmp_path: Path) -> None:
    code = (
        "import asyncio, resource, sys\n"
        "from pathlib import Path\n"
        "from memory.embedding.engines.model_download import HubFile, download\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (2_000_000, 2_000_000))\n"
        "file = HubFile.parse('hf:owner/repo/model-Q8_0.gguf')\n"
        "try:\n"
        "    asyncio.run(download(file, cache_dir=Path(sys.argv[1]), hub_url=sys.argv[2], pause=0.0))\n"
        "except Exception as error:\n"
        "    print(type(error).__name__, error)\n"
    )
    root = Path(__file__).parents[2]
    done = await asyncio.create_subprocess_exec(
        sys.executable, "-c", code, str(tmp_path), peer.url, cwd=root, stdout=subprocess.PIPE
    )
    out, _ = await done.communicate()
    assert out.decode().startswith("EmbeddingFailed hf:owner/repo/model-Q8_0.gguf could not be written")
    assert leftovers(tmp_path) == []
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] != 2_000_000


async def test_two_processes_do_not_write_into_one_file(peer: EmbeddingPeer, tmp_path: Path) -> None:
    part = tmp_path / "owner--repo" / "model-Q8_0.gguf.part"
    part.parent.mkdir()
    with part.open("wb") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(EmbeddingFailed, match=r"Another process is already downloading model-Q8_0\.gguf") as failed:
            await get(peer, tmp_path)
    assert failed.value.passing
    assert (await get(peer, tmp_path)).read_bytes() == CONTENT


async def test_a_folder_that_cannot_be_written_is_named(peer: EmbeddingPeer, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(EmbeddingFailed, match="cannot be written") as failed:
        await get(peer, tmp_path / "file")
    assert "modelCacheDir" in failed.value.hint


@pytest.mark.parametrize("uri", ["hf:model.gguf", "hf:a/b", "hf:a/../b/c.gguf", "http://x/y", "hf:a/b/c?d.gguf", ""])
def test_what_is_no_address_is_refused(uri: str) -> None:
    with pytest.raises(EmbeddingFailed, match="is not a model address"):
        HubFile.parse(uri)


NAME = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9_-]{0,8}", fullmatch=True)


@given(NAME, NAME, st.lists(NAME, min_size=1, max_size=3), NAME)
def test_an_address_is_read_as_it_is_written(owner: str, repo: str, path: list[str], revision: str) -> None:
    file = HubFile(f"{owner}/{repo}", "/".join(path) + ".gguf", revision)
    assert HubFile.parse(str(file)) == file
    assert file.place(Path("/models")).is_relative_to("/models")
