"""The ``homebody`` program: runs a command, tells its errors and returns its exit code.

What stays is to be small: a gateway is started without click (``plain_start.py``), which all other commands need (``click_commands.py``).
"""

from __future__ import annotations

import atexit
import gc
import os
import sys
from functools import partial
from typing import TYPE_CHECKING

from gateway.base import errors
from gateway.cli.plain_start import chosen_options, gateway_start
from gateway.cli.streams import print_error, silence, stand_in_for_closed

if TYPE_CHECKING:
    from collections.abc import Sequence

_COLLECTED_AFTER = 200_000
"""Objects after which garbage is collected. While modules are loaded there is next to none, and looking for it often takes 70 ms."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code. Errors go to stderr, as JSON when ``--json`` was given."""
    os.umask(0o077)
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")  # it would read the metadata of all packages
    gc.set_threshold(_COLLECTED_AFTER)
    atexit.register(gc.freeze)  # at the end memory goes back as a whole: to look for garbage in it would take up to 100 ms
    _settle_home()
    stand_in_for_closed()
    given = list(sys.argv[1:] if arguments is None else arguments)
    errors.write_commands_with(partial(chosen_options, given))
    try:
        return _run(given)
    finally:
        errors.write_commands_with(None)
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except OSError:  # the terminal or the reader is gone: the exit code says what there is to say
                silence(stream)


def _settle_home() -> None:
    """For a user without an account, as in some containers, take the folder that HOMEBODY_HOME is in: the notes go there."""
    given = os.environ.get("HOMEBODY_HOME", "")
    if not os.environ.get("HOME") and os.path.isabs(given) and os.path.expanduser("~") == "~":  # noqa: PTH111, PTH117 - unknown is an answer
        os.environ["HOME"] = os.path.dirname(given.rstrip("/")) or "/"  # noqa: PTH120 - the same


def _run(arguments: list[str]) -> int:
    as_json = "--json" in arguments
    try:
        if (start := gateway_start(arguments)) is not None:
            start()
            return errors.OK
        from gateway.cli import click_commands

        code = click_commands.run(arguments, as_json=as_json)
        sys.stdout.flush()
    except BrokenPipeError:  # the reader of our output has seen enough; click ends with the same code when it notices first
        silence(sys.stdout)
        return errors.FAILED
    except KeyboardInterrupt:
        return errors.INTERRUPTED
    except Exception as error:  # noqa: BLE001 -- the last place where an error can be told in words instead of a traceback
        return _tell_any(error, arguments, as_json=as_json)
    return code


def _tell_any(error: Exception, arguments: Sequence[str], *, as_json: bool) -> int:
    known = errors.as_homebody_error(error)
    if known is not None:
        if isinstance(known, errors.StorageFailed):
            silence(sys.stdout)
        return print_error(known, as_json=as_json)
    if "-v" in arguments or "--verbose" in arguments:
        import traceback

        traceback.print_exception(error)
    hint = "This is a bug. Run the command again as `homebody -v ...` for a traceback, and please report it."
    return print_error(errors.HomebodyError(f"unexpected {type(error).__name__}: {error}", hint=hint), as_json=as_json)
