"""Libraries are imported without parts that are not used here."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING

import pytest

from gateway.base.lean_import import leaving_out

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    folder = tmp_path / "leanlibrary"
    folder.mkdir()
    (folder / "__init__.py").write_text(
        "from leanlibrary.heavy import work\ntry:\n    import leanextra\nexcept ImportError:\n    leanextra = 'none'\n"
    )
    (folder / "heavy.py").write_text("def work(): return 'done'\n")
    (tmp_path / "leanextra.py").write_text("")
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in ("leanlibrary", "leanlibrary.heavy", "leanextra"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return "leanlibrary"


def test_a_library_is_imported_without_a_part_and_without_a_package(library: str) -> None:
    with leaving_out("leanlibrary.heavy", absent=("leanextra",)):
        module = __import__(library)
    assert module.work is None
    assert module.leanextra == "none"
    assert not {"leanlibrary.heavy", "leanextra"} & set(sys.modules)


def test_the_part_can_be_imported_afterwards(library: str) -> None:
    with leaving_out("leanlibrary.heavy"):
        __import__(library)
    import leanlibrary.heavy  # type: ignore[import-not-found]

    assert leanlibrary.heavy.work() == "done"


def test_what_is_loaded_already_is_not_changed(library: str) -> None:
    module = __import__(library)
    with leaving_out("leanlibrary.heavy", absent=("leanextra",)):
        from leanlibrary.heavy import work  # type: ignore[import-not-found]

        assert work() == "done"
    assert {"leanlibrary.heavy", "leanextra"} <= set(sys.modules)
    assert module.work() == "done"


def test_a_part_is_replaced_by_a_module_that_the_library_calls(library: str) -> None:
    heavy = ModuleType("leanlibrary.heavy")
    heavy.work = lambda: "spared"  # type: ignore[attr-defined]
    with leaving_out(instead=(heavy,)):
        module = __import__(library)
    assert module.work() == "spared"
    assert "leanlibrary.heavy" not in sys.modules
