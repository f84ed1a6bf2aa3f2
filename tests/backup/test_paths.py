"""Paths in a backup: none leads outside, however it is written."""

from __future__ import annotations

import os
from pathlib import PurePosixPath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.backup.manifest import check_path, link_stays_inside

PARTS = st.sampled_from(["home", "workspace", "main", "a", "..", ".", "", "b.md", "é", "x" * 300, "\0", "a\nb"])


@given(st.lists(PARTS, min_size=1, max_size=6).map("/".join))
def test_what_is_accepted_stays_below_its_root(path: str) -> None:
    try:
        check_path(path, {"main": ""})
    except ValueError:
        return
    assert os.path.normpath(path) == path
    assert path.startswith(("home/", "workspace/main/"))
    assert "\0" not in path


@pytest.mark.parametrize(
    "path",
    [
        "/etc/passwd",
        "home",
        "home/",
        "home/../x",
        "home//x",
        "other/x",
        "workspace/main",
        "workspace/../x",
        "workspace/Main/x",
        "home/a\0b",
        "",
    ],
)
def test_a_path_that_leads_elsewhere_is_refused(path: str) -> None:
    with pytest.raises(ValueError, match="path"):
        check_path(path, {"main": ""})


@given(
    st.lists(st.sampled_from(["a", "b"]), min_size=1, max_size=3),
    st.lists(st.sampled_from(["..", ".", "a", "", "b"]), max_size=6),
)
def test_a_link_is_inside_exactly_if_it_never_leaves_its_root(place: list[str], target: list[str]) -> None:
    path, leads = "/".join(["home", *place]), "/".join(target)
    here, outside = list(place[:-1]), leads == "" or leads.startswith("/")
    for part in PurePosixPath(leads).parts if not outside else ():
        if part == "..":
            outside = outside or not here
            here = here[:-1]
        else:
            here.append(part)
    assert link_stays_inside(path, leads) == (not outside)
