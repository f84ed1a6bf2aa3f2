"""Sections of the settings whose validator is made when the file says something of them.

``mail: Annotated[MailSettings, DEFERRED] = MailSettings.model_construct()``: most files name few sections, and the validators of the
others would be a tenth of an idle gateway's memory and of its start.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final

from pydantic import PlainSerializer, PlainValidator

if TYPE_CHECKING:
    from pydantic import BaseModel, GetCoreSchemaHandler, SerializationInfo, ValidationInfo
    from pydantic_core import core_schema


class _Checks:
    """Validates one section. Its problems keep their place: pydantic adds them to those of the section around it."""

    def __init__(self, model: type[BaseModel]) -> None:
        self.model = model

    def __call__(self, value: Any, info: ValidationInfo) -> BaseModel:
        return value if isinstance(value, self.model) else self.model.model_validate(value, context=info.context)


def _dumped(section: BaseModel, info: SerializationInfo) -> dict[str, Any]:
    return section.model_dump(
        mode=info.mode,
        include=info.include,  # type: ignore[arg-type]  # the same, under two names
        exclude=info.exclude,  # type: ignore[arg-type]
        context=info.context,
        by_alias=info.by_alias,
        exclude_unset=info.exclude_unset,
        exclude_defaults=info.exclude_defaults,
        exclude_none=info.exclude_none,
        round_trip=info.round_trip,
    )


class Deferred:
    """A mark in ``Annotated``. Models that have it behave as without it; they need ``defer_build``."""

    def __get_pydantic_core_schema__(self, model: type[BaseModel], handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        """Leave the section's own schema for later."""
        return handler.generate_schema(Annotated[Any, PlainValidator(_Checks(model)), PlainSerializer(_dumped)])


def schema_of(deferred: core_schema.PlainValidatorFunctionSchema) -> core_schema.CoreSchema | None:
    """Return the schema of the section behind a deferred one, for a description of all settings; None for other functions."""
    checks: Any = deferred["function"]["function"]
    if not isinstance(checks, _Checks):
        return None
    model = checks.model
    model.model_rebuild()
    own: Any = model.__pydantic_core_schema__
    name = {"ref": f"{model.__module__}.{model.__qualname__}:{id(model)}"}  # it is described once, under its name
    return {**own, "schema": own["schema"] | name} if own["type"] == "definitions" else own | name


DEFERRED: Final = Deferred()
