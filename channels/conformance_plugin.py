"""The pytest plugin that makes a test of each rule of ``channels.testing``, for whoever asks for the fixture ``channel_conformance``.

It is loaded at the start of every pytest in whose environment Homebody is installed, so nothing else is imported before a test asks for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

if TYPE_CHECKING:
    from channels.testing.conformance import Conformance

NAME: Final = "channel_conformance"
"""Of the fixture, and of the marker that names some of the rules."""
REPORT: Final = "--channel-report"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option for a report."""
    parser.getgroup("homebody").addoption(
        REPORT,
        metavar="FILE",
        help="Append a line of JSON for each rule that a channel was checked against (docs/channel-rules.md).",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker."""
    config.addinivalue_line("markers", f"{NAME}(*rules): check only these rules of channels, by name")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Repeat a test that asks for the fixture for each rule."""
    if NAME not in metafunc.fixturenames:
        return
    from channels.testing.conformance import rules_named

    marked = [name for mark in metafunc.definition.iter_markers(NAME) for name in mark.args]
    try:
        rules = rules_named(marked)
    except ValueError as error:
        raise pytest.UsageError(f"{metafunc.definition.nodeid}: {error}") from None
    metafunc.parametrize(NAME, rules, indirect=True, ids=[rule.__name__ for rule in rules])


@pytest.fixture
def channel_conformance(request: pytest.FixtureRequest) -> Conformance:
    """Return one rule. A test awaits it with the peer that its channel is connected to."""
    from channels.testing.conformance import Conformance

    return Conformance(request.param, report=request.config.getoption(REPORT))
