"""Calls that share a commit: each changes all or nothing, and one that fails does not affect the others."""

from __future__ import annotations

import asyncio
import concurrent.futures
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from agent import fault_injection
from gateway.ledger.database import Database, Engine


@dataclass(slots=True)
class Call:
    """A function to run and the future for its result. ``after`` runs on the event loop once the result is stored.

    One of ``concurrent.futures`` is answered by the ledger's thread, one of asyncio on its event loop.
    ``outside``: it is given the engine, between two transactions. ``doubtful``: nobody knows yet whether it was committed.
    """

    work: Callable[[Any], Any]
    answer: asyncio.Future[Any] | concurrent.futures.Future[Any]
    after: Callable[[], None] | None
    outside: bool = False
    synced: bool = True
    doubtful: bool = False
    result: Any = None
    error: Exception | None = None


def commit_together(engine: Engine, calls: Sequence[Call], *, synced: bool) -> Exception | None:
    """Run the calls in one transaction; return the error that rolled back all of them, if any."""
    try:
        engine.begin(synced=synced)
        alone = len(calls) == 1
        for call in calls:
            _run_one(engine, engine.db, call, alone=alone)
            if not engine.in_transaction and isinstance(call.error, engine.failures):
                return call.error
            if alone and call.error is not None:
                return None
        _fault("before", calls)
        engine.commit()
    except engine.failures as error:
        if engine.in_transaction:
            engine.rollback()
        return error
    _fault("after", calls)
    return None


def _fault(moment: Literal["before", "after"], calls: Sequence[Call]) -> None:
    """Pass a kill point for each call, named after the ledger's function that made it (see ``agent.fault``)."""
    for call in calls if fault_injection.armed() else ():
        fault_injection.point(moment, getattr(call.work, "__qualname__", "").split(".<locals>")[0].rpartition(".")[2])


def _run_one(engine: Engine, db: Database, call: Call, *, alone: bool) -> None:
    """Run a call so that it changes all or nothing; one that is ``alone`` in its transaction needs no savepoint for that."""
    call.result = call.error = None
    if not alone:
        db.execute("SAVEPOINT one")
    try:
        call.result = call.work(db)
    except Exception as error:  # noqa: BLE001  (it belongs to the caller, and must not stop the thread)
        call.error = error
        if engine.in_transaction:
            if alone:
                engine.rollback()
            else:
                db.execute("ROLLBACK TO one")
    if not alone and engine.in_transaction:
        db.execute("RELEASE one")


def answer(calls: Sequence[Call]) -> None:
    """Set the results of calls that ended. On the event loop, where it has the futures."""
    for call in calls:
        if call.error is None and call.after is not None:
            call.after()
        if call.answer.done():
            continue
        if call.error is None:
            call.answer.set_result(call.result)
        else:
            call.answer.set_exception(call.error)
