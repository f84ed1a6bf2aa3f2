"""A gateway is started without click, and by the same command lines as with it."""

from __future__ import annotations

import pytest

from gateway.cli.click_commands import homebody
from gateway.cli.plain_start import gateway_start
from gateway.cli.run_gateway import gateway

PLAIN = (
    "gateway",
    "gateway --background",
    "gateway --restart-on-stall --background",
    "--home /a gateway",
    "--home /a --profile work --config /b/c.yaml gateway --background",
)
OTHERS = (
    "",
    "status",
    "gateway --help",
    "gateway --json",
    "gateway more",
    "-v gateway",
    "--home gateway",
    "--home --profile gateway",
    "--home=/a gateway",
    "--profile work status",
)


@pytest.mark.parametrize("line", PLAIN)
def test_the_plain_form_means_what_it_means_to_click(line: str) -> None:
    arguments = line.split()
    start = gateway_start(arguments)
    assert start is not None
    context = homebody.make_context("homebody", list(arguments))
    context.invoked_subcommand = "gateway"
    assert homebody.callback is not None
    with context:
        homebody.callback(**context.params)
        chosen = gateway.make_context("gateway", arguments[arguments.index("gateway") + 1 :], parent=context)
    assert start.args == (context.obj,)  # type: ignore[attr-defined]
    assert start.keywords == chosen.params  # type: ignore[attr-defined]


@pytest.mark.parametrize("line", OTHERS)
def test_any_other_command_line_is_left_to_click(line: str) -> None:
    assert gateway_start(line.split()) is None
