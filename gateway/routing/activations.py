"""When the agent answers in each group, as chosen with ``/activation``: in memory, because every message in a group asks for it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime

from msgspec.structs import replace

from channels.messages import ChatAddress
from gateway.ledger.activation_rows import Activation, ActivationLedger, ActivationMode


class Activations:
    """The choices of all groups. A choice is for a group with all its threads, and stays when the platform gives it another id.

    ``formers`` returns a conversation under the former ids of its group, the first id first.
    """

    def __init__(self, formers: Callable[[ChatAddress], Sequence[ChatAddress]] = lambda _: ()) -> None:
        self._formers = formers
        self._chosen: dict[str, Activation] = {}

    async def load(self, ledger: ActivationLedger) -> None:
        """Read what was chosen before the start."""
        self._chosen = await ledger.all()

    def of(self, place: ChatAddress) -> Activation | None:
        """Return what was chosen in a group; None where the settings hold."""
        group = replace(place, thread=None)
        found = (self._chosen.get(one.address) for one in (group, *self._formers(group)))
        return next((one for one in found if one is not None), None)

    async def choose(
        self, ledger: ActivationLedger, place: ChatAddress, mode: ActivationMode | None, *, by: str, at: datetime
    ) -> None:
        """Choose for a group; None lets the settings hold again.

        Raises:
            StorageFailed: nothing was changed.
        """
        group = replace(place, thread=None)
        chosen = None if mode is None else Activation(mode=mode, by=by, at=at)
        for former in self._formers(group):
            await ledger.put(former.address, None)
            self._chosen.pop(former.address, None)
        await ledger.put(group.address, chosen)
        if chosen is None:
            self._chosen.pop(group.address, None)
        else:
            self._chosen[group.address] = chosen
