"""Commands that only look at the workspace or the machine: by program, the options and arguments with which they do.

Whatever is not listed here is not known to be harmless: an option that writes, runs something else or reads a list of files, an
abbreviated option, a path that leaves the workspace.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, Literal

from msgspec import Struct

from gateway.approvals.command_paths import Place
from gateway.approvals.read_only_git import git_only_looks

Kind = Literal["paths", "files", "pattern", "text", "filter", "format", "numbers", "names", "disk", "none"]
"""What a program's arguments besides its options are.

"pattern": a pattern and then paths. "filter": a filter of jq and then paths. "format": one that begins with ``+``. "disk": paths, or ``/``.
"files": paths that are not folders.
"""
_VALUES: Final = {
    "number": re.compile(r"[+-]?\d{1,9}[A-Za-z]{0,3}"),
    "list": re.compile(r"[0-9,-]{1,80}"),
    "key": re.compile(r"[0-9.,bdfgiMhnRrV]{1,40}"),
    "word": re.compile(r"[A-Za-z0-9-]{1,20}"),
    "text": re.compile(r"(?s).*"),
}
_SHAPES: Final = {
    "none": re.compile(r"(?!)"),
    "text": re.compile(r"(?s).*"),
    "format": re.compile(r"(?s)\+.*"),
    "numbers": re.compile(r"[0-9]+"),
    "names": re.compile(r"[A-Za-z0-9._+-]+"),
}
"""Arguments that are no paths, by kind."""
_JQ_READS_ELSEWHERE: Final = re.compile(r"\b(?:import|include|modulemeta|env|ENV|input_filename|get_search_list)\b")


class _Program(Struct, frozen=True):
    """``flags`` are letters of options without a value, ``words`` long options without one.

    ``short`` and ``long`` are options with a value, such as ``max-count=number``; with ``?`` for ``=`` it may be left out. A value
    that is a "path" is checked. ``most`` counts the arguments besides options; ``digits`` lets ``-5`` stand for a number.
    """

    flags: str = ""
    operands: Kind = "paths"
    short: str = ""
    words: str = ""
    long: str = ""
    most: int = 1000
    digits: bool = False

    def value_of(self, name: str) -> str:
        """What kind of value an option takes, with ``=`` or ``?`` before it; "" for an option that is not known."""
        known = self.short if len(name) == 1 else self.long
        return next((one[len(name) :] for one in known.split() if one.startswith((f"{name}=", f"{name}?"))), "")


def _split(words: str) -> frozenset[str]:
    return frozenset(words.split())


_DIGEST: Final = _Program("btz", words="binary text tag zero")
_PROGRAMS: Final[Mapping[str, _Program]] = {
    "arch": _Program(operands="none"),
    "b2sum": _DIGEST,
    "basename": _Program("az", "text", short="s=text", words="multiple zero", long="suffix=text"),
    "cal": _Program("13y", "numbers", words="three year", most=2),
    "cat": _Program("AbeEnstTuv", words="number number-nonblank show-all show-ends show-tabs squeeze-blank show-nonprinting"),
    "cksum": _Program(),
    "cmp": _Program("bls", "files", words="print-bytes verbose quiet silent", most=2),
    "cut": _Program(
        "sn",
        short="b=list c=list f=list d=text",
        words="only-delimited complement",
        long="bytes=list characters=list fields=list delimiter=text output-delimiter=text",
    ),
    "date": _Program(
        "uR",
        "format",
        short="d=text r=path",
        words="utc universal rfc-email",
        long="date=text reference=path iso-8601?word rfc-3339=word",
        most=1,
    ),
    "df": _Program(
        "ahHikTPl", "disk", short="t=word x=word", words="all human-readable si inodes local portability print-type total"
    ),
    "diff": _Program(
        "uqbBwiNsyac",
        "files",
        short="U=number W=number",
        words="brief ignore-case ignore-all-space ignore-blank-lines ignore-space-change report-identical-files "
        "side-by-side text",
        long="unified?number context?number width=number color?word colour?word",
        most=2,
    ),
    "dirname": _Program("z", "text", words="zero"),
    "du": _Program(
        "abchkmsSx0",
        short="d=number t=number",
        words="all apparent-size bytes total human-readable summarize separate-dirs one-file-system si inodes null",
        long="max-depth=number threshold=number exclude=text time?word",
    ),
    "echo": _Program("neE", "text"),
    "file": _Program("bihN", words="brief mime mime-type mime-encoding no-pad"),
    "free": _Program("bkmghtwl", "none", words="human total wide lohi si kibi mebi gibi"),
    "grep": _Program(
        "EFGivwxclLoqshHnbTrIa",
        "pattern",
        short="e=text m=number A=number B=number C=number",
        words="extended-regexp fixed-strings basic-regexp ignore-case invert-match word-regexp line-regexp count "
        "files-with-matches files-without-match only-matching quiet silent no-messages with-filename no-filename "
        "line-number byte-offset recursive text",
        long="regexp=text max-count=number after-context=number before-context=number context=number include=text "
        "exclude=text exclude-dir=text color?word colour?word",
        digits=True,
    ),
    "groups": _Program(operands="none"),
    "head": _Program(
        "qvz", short="n=number c=number", words="quiet silent verbose", long="lines=number bytes=number", digits=True
    ),
    "hostname": _Program("fiIsd", "none", words="fqdn long short ip-address all-ip-addresses domain"),
    "id": _Program("ugnGrz", "none", words="user group name groups real zero"),
    "jq": _Program(
        "rcSMCesnj", "filter", words="raw-output compact-output sort-keys monochrome-output exit-status slurp null-input tab"
    ),
    "ls": _Program(
        "aAlhRtrS1dpFGogiknsUXvcuqQbNxmC",
        short="I=text w=number",
        words="all almost-all human-readable recursive reverse size directory inode numeric-uid-gid full-time "
        "group-directories-first no-group si",
        long="sort=word time=word time-style=text classify?word ignore=text hide=text color?word colour?word",
    ),
    "lsblk": _Program("aflnpmtJ", "none", words="all fs list noheadings paths perms topology json"),
    "lscpu": _Program("J", "none", words="json"),
    "md5sum": _DIGEST,
    "nproc": _Program(operands="none", words="all"),
    "pwd": _Program("LP", "none", words="logical physical"),
    "readlink": _Program(
        "femnqsvz", words="canonicalize canonicalize-existing canonicalize-missing no-newline quiet verbose zero"
    ),
    "realpath": _Program(
        "emsqzLP", words="canonicalize-existing canonicalize-missing no-symlinks strip quiet logical physical zero"
    ),
    "rg": _Program(
        "inlcwvFosSHIUxN",
        "pattern",
        short="e=text g=text t=word T=word m=number A=number B=number C=number",
        words="hidden files-with-matches ignore-case smart-case line-number no-line-number count count-matches "
        "fixed-strings word-regexp only-matching no-heading heading stats json multiline no-messages",
        long="glob=text type=word max-count=number max-depth=number sort=word regexp=text after-context=number "
        "before-context=number context=number color=word",
    ),
    "sha1sum": _DIGEST,
    "sha256sum": _DIGEST,
    "sha512sum": _DIGEST,
    "sort": _Program(
        "bdfgiMhnrVucCsz",
        short="k=key t=text",
        words="ignore-leading-blanks dictionary-order ignore-case general-numeric-sort month-sort human-numeric-sort "
        "numeric-sort reverse version-sort unique stable check zero-terminated",
        long="key=key field-separator=text sort=word",
    ),
    "stat": _Program("Lft", short="c=text", words="dereference file-system terse", long="format=text printf=text"),
    "tail": _Program(
        "qvz", short="n=number c=number", words="quiet silent verbose", long="lines=number bytes=number", digits=True
    ),
    "tr": _Program("cCdst", "text", words="complement delete squeeze-repeats truncate-set1", most=2),
    "tree": _Program("adfshDpugin", short="L=number P=text I=text", words="du dirsfirst noreport si"),
    "uname": _Program(
        "asnrvmpio", "none", words="all kernel-name nodename kernel-release kernel-version machine operating-system"
    ),
    "uniq": _Program(
        "cdDuiz",
        short="f=number s=number w=number",
        words="count repeated unique ignore-case",
        long="skip-fields=number skip-chars=number check-chars=number",
        most=1,
    ),
    "uptime": _Program("ps", "none", words="pretty since"),
    "wc": _Program("cmlLw", words="bytes chars lines words max-line-length"),
    "which": _Program("a", "names", most=10),
    "whoami": _Program(operands="none"),
}
_ASKED_FOR_VERSION: Final = frozenset({"gcc", "git", "make", "node", "perl", "python3", "ruby", "tar"})
"""Programs that do nothing else when they are asked for their version; others read settings first, from where they start."""

_FIND_ALONE: Final = _split(
    "-print -print0 -ls -prune -empty -depth -mount -xdev -a -o -and -or -not ! ( ) , -true -false -quit -readable -writable -executable "
    "-nouser -nogroup -daystart"
)
_FIND_TEXT: Final = _split(
    "-name -iname -path -ipath -wholename -iwholename -regex -iregex -regextype -type -xtype -size -mtime -atime -ctime -mmin -amin -cmin "
    "-maxdepth -mindepth -user -group -uid -gid -perm -links -inum -newermt -printf -lname -ilname -used"
)
_FIND_PATH: Final = _split("-newer -anewer -cnewer -samefile")

VERSIONS: Final = "versions"
LOOKING: Final = frozenset({*_PROGRAMS, "find", "git", VERSIONS})
"""The names of the rules: the programs that are known here, and one for asking programs for their version."""


def rule_of(argv: Sequence[str]) -> str:
    """Return the name of the rule that would be about a command."""
    name = argv[0].rpartition("/")[2]
    return VERSIONS if name in _ASKED_FOR_VERSION and list(argv[1:]) == ["--version"] else name


def only_looks(argv: Sequence[str], place: Place) -> bool:
    """Whether a command does nothing but look at the workspace or the machine. Looks at the disk itself."""
    name, arguments = rule_of(argv), argv[1:]
    if name == VERSIONS:
        return True
    if name == "find":
        return _find_only_looks(arguments, place)
    if name == "git":
        return git_only_looks(arguments, place)
    program = _PROGRAMS.get(name)
    if program is None:
        return False
    read = _Reader(program, place)
    return read.options(arguments) and read.operands_are_harmless()


class _Reader:
    """Reads arguments as GNU's getopt does, but knows no abbreviations and only what the table says."""

    def __init__(self, program: _Program, place: Place) -> None:
        self._program = program
        self._place = place
        self._operands: list[str] = []
        self._has_pattern = False

    def options(self, arguments: Sequence[str]) -> bool:
        """Take the options out; False for one that is not known."""
        rest = iter(arguments)
        for word in rest:
            if word == "--":
                self._operands += rest
            elif word.startswith("--"):
                if not self._long(word[2:], rest):
                    return False
            elif word.startswith("-") and word != "-":
                if not self._short(word[1:], rest):
                    return False
            else:
                self._operands.append(word)
        return True

    def operands_are_harmless(self) -> bool:
        """Whether all that is not an option is what the program may be given."""
        given, kind = self._operands, self._program.operands
        if len(given) > self._program.most:
            return False
        if kind in _SHAPES:
            return all(_SHAPES[kind].fullmatch(one) for one in given)
        if kind == "disk":
            return all(one == "/" or self._place.holds(one) for one in given)
        if kind == "files" and any(Path(self._place.cwd, one).is_dir() for one in given):
            return False
        if kind == "filter" and (not given or _JQ_READS_ELSEWHERE.search(given[0])):
            return False
        before = kind == "filter" or (kind == "pattern" and not self._has_pattern)
        return self._are_paths(given[1:] if before else given)

    def _are_paths(self, words: Sequence[str]) -> bool:
        return all(word == "-" or self._place.holds(word) for word in words)

    def _long(self, word: str, rest: Iterator[str]) -> bool:
        name, equals, value = word.partition("=")
        if name in {"help", "version"} or name in self._program.words.split():
            return not equals
        kind = self._program.value_of(name) if len(name) > 1 else ""
        if not kind or (kind.startswith("?") and not equals):
            return bool(kind)
        self._has_pattern |= name == "regexp"
        return self._is_value(kind[1:], value if equals else next(rest, None))

    def _short(self, letters: str, rest: Iterator[str]) -> bool:
        if self._program.digits and letters.isascii() and letters.isdigit():
            return True
        for place, letter in enumerate(letters):
            if kind := self._program.value_of(letter):
                self._has_pattern |= letter == "e"
                return self._is_value(kind[1:], letters[place + 1 :] or next(rest, None))
            if letter not in self._program.flags:
                return False
        return True

    def _is_value(self, kind: str, value: str | None) -> bool:
        if value is None:
            return False
        return self._place.holds(value) if kind == "path" else _VALUES[kind].fullmatch(value) is not None


def _find_only_looks(arguments: Sequence[str], place: Place) -> bool:
    rest = list(arguments)
    while rest and not rest[0].startswith("-") and rest[0] not in {"(", "!", ","}:
        if not place.holds(rest.pop(0)):
            return False
    while rest:
        word = rest.pop(0)
        if word in _FIND_ALONE:
            continue
        if not rest or not (word in _FIND_TEXT or (word in _FIND_PATH and place.holds(rest[0]))):
            return False
        rest.pop(0)
    return True
