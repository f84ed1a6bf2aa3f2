"""A chat's address can be written and read back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from channels.messages import THREAD_MARK, ChatAddress

NAME = st.text("abcdefgh-_9", min_size=1, max_size=8)
ID = st.text("abc:@.-_09", min_size=1, max_size=12)
ADDRESS = st.builds(
    ChatAddress,
    channel=NAME,
    account=NAME,
    kind=st.sampled_from(["direct", "group"]),
    id=ID,
    thread=st.none() | ID,
    space=st.none() | NAME,
)


@given(ADDRESS)
def test_an_address_is_read_as_it_was_written(place: ChatAddress) -> None:
    assert ChatAddress.parse(place.address, space=place.space) == place


@pytest.mark.parametrize("text", ["", "telegram", "telegram:default:direct", "telegram:default:channel:1", THREAD_MARK])
def test_what_is_no_address_is_refused_with_its_beginning(text: str) -> None:
    with pytest.raises(ValueError, match="is not the address"):
        ChatAddress.parse(text)
