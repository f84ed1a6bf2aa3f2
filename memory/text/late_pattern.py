"""A regular expression that is compiled when it is first used: a long one takes two milliseconds, and most are for few messages."""

from __future__ import annotations

import re
from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class LatePattern:
    """What ``re.compile`` of the same arguments returns, as far as it is used."""

    def __init__(self, pattern: str, flags: re.RegexFlag = re.NOFLAG) -> None:
        self._pattern = pattern
        self._flags = flags

    @cached_property
    def _compiled(self) -> re.Pattern[str]:
        return re.compile(self._pattern, self._flags)

    @cached_property
    def match(self) -> Callable[[str], re.Match[str] | None]:
        """``re.Pattern.match``."""
        return self._compiled.match

    @cached_property
    def search(self) -> Callable[[str], re.Match[str] | None]:
        """``re.Pattern.search``."""
        return self._compiled.search

    @cached_property
    def sub(self) -> Callable[[str, str], str]:
        """``re.Pattern.sub``."""
        return self._compiled.sub

    @cached_property
    def findall(self) -> Callable[[str], list[str]]:
        """``re.Pattern.findall``."""
        return self._compiled.findall

    @cached_property
    def finditer(self) -> Callable[[str], Iterator[re.Match[str]]]:
        """``re.Pattern.finditer``."""
        return self._compiled.finditer
