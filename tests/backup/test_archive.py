"""The stream of a backup: what goes in comes out, and nothing that was cut, changed or forged is taken."""

from __future__ import annotations

import io
import subprocess
import tarfile
import zlib
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.backup.tar_archive import CHUNK, ArchiveReader, ArchiveWriter
from gateway.base.errors import BackupUnusable

if TYPE_CHECKING:
    from pathlib import Path

    from gateway.backup.tar_archive import ArchivedFile

NAMES = st.binary(min_size=1, max_size=300).map(
    lambda raw: "home/" + raw.replace(b"\0", b"0").replace(b"/", b"_").decode("utf-8", "surrogateescape")
)
FILES = st.dictionaries(NAMES, st.binary(max_size=3000), max_size=8)


def packed(files: dict[str, bytes]) -> bytes:
    target = io.BytesIO()
    writer = ArchiveWriter(target)
    for name, data in files.items():
        writer.add(name, len(data), 0o600, 1_700_000_000, iter((data,)))
    writer.close()
    return target.getvalue()


def unpacked(data: bytes) -> dict[str, bytes]:
    found: dict[str, bytes] = {}

    def take(file: ArchivedFile) -> None:
        found[file.path] = b"".join(file.chunks)

    ArchiveReader(io.BytesIO(data), "it").read_all(take)
    return found


@given(FILES)
def test_files_come_out_as_they_went_in_whatever_their_names(files: dict[str, bytes]) -> None:
    assert unpacked(packed(files)) == files


@given(FILES, st.data())
def test_a_stream_that_is_cut_off_anywhere_is_refused(files: dict[str, bytes], data: st.DataObject) -> None:
    whole = packed(files)
    with pytest.raises(BackupUnusable):
        unpacked(whole[: data.draw(st.integers(0, len(whole) - 1))])


@given(st.binary(min_size=2000, max_size=4000), st.data())
def test_a_changed_byte_is_never_taken_for_what_was_stored(content: bytes, data: st.DataObject) -> None:
    whole = bytearray(packed({"home/a": content}))
    at = data.draw(st.integers(10, len(whole) - 1))  # before lies the header of gzip, which says nothing of the content
    whole[at] ^= data.draw(st.integers(1, 255))
    try:
        found = unpacked(bytes(whole))
    except BackupUnusable:
        return
    assert found == {"home/a": content}


def test_large_files_pass_in_pieces() -> None:
    size = 5 * CHUNK + 7
    target = io.BytesIO()
    writer = ArchiveWriter(target)
    writer.add("home/large", size, 0o600, 0, iter([bytes(CHUNK)] * 5 + [b"x" * 7]))
    writer.close()
    pieces: list[int] = []
    ArchiveReader(io.BytesIO(target.getvalue()), "it").read_all(lambda file: pieces.extend(map(len, file.chunks)))
    assert sum(pieces) == size
    assert max(pieces) <= CHUNK


@pytest.mark.parametrize(
    "kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.DIRTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE, tarfile.XHDTYPE]
)
def test_links_devices_and_foreign_headers_are_refused(kind: bytes) -> None:
    info = tarfile.TarInfo("home/x")
    info.type, info.linkname = kind, "/etc/passwd"
    packer = zlib.compressobj(wbits=31)
    data = packer.compress(info.tobuf(tarfile.GNU_FORMAT) + bytes(1024)) + packer.flush()
    with pytest.raises(BackupUnusable, match="no plain file"):
        unpacked(data)


def test_a_name_that_claims_a_gigabyte_costs_none() -> None:
    info = tarfile.TarInfo("././@LongLink")
    info.type, info.size = tarfile.GNUTYPE_LONGNAME, 1 << 30
    packer = zlib.compressobj(wbits=31)
    data = packer.compress(info.tobuf(tarfile.GNU_FORMAT) + bytes(1024)) + packer.flush()
    with pytest.raises(BackupUnusable, match="too long"):
        unpacked(data)


def test_what_follows_the_end_is_refused() -> None:
    whole = packed({"home/a": b"x"})
    for more in (b"x", whole, bytes(100)):
        with pytest.raises(BackupUnusable, match="behind its end"):
            unpacked(whole + more)


def test_the_usual_tar_reads_it_too(tmp_path: Path) -> None:
    name = "home/" + "n" * 150 + ".md"
    (tmp_path / "it.tar.gz").write_bytes(packed({name: b"hello", "home/b": b""}))
    listed = subprocess.run(["tar", "-tzf", tmp_path / "it.tar.gz"], check=True, capture_output=True, text=True).stdout
    assert listed.split() == [name, "home/b"]
