"""Several accounts on one platform: a section of settings is the account ``default`` and what the others fall back to."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from pydantic import BaseModel

DEFAULT = "default"
A = TypeVar("A", bound="BaseModel")


def laid_over(section: BaseModel, kind: type[A], accounts: Mapping[str, A], name: str, *, own: Collection[str]) -> A:
    """Return the settings in force for an account. What it does not set comes from the section, but never the fields ``own``.

    Raises:
        KeyError: there is no such account.
    """
    shared = {key: getattr(section, key) for key in kind.model_fields}
    if name == DEFAULT and name not in accounts:
        return kind.model_construct(**shared)
    account = accounts[name]
    said = {key: getattr(account, key) for key in account.model_fields_set}
    alone = dict.fromkeys(own) if name != DEFAULT or said.keys() & set(own) else {}
    return kind.model_construct(**{**shared, **alone, **said})
