"""Checks the arguments of tool calls: one pydantic model for each tool, one line for each error."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from functools import partial
from typing import Annotated, Any, Final, Generic, TypeVar

from pydantic import AfterValidator, AliasChoices, BaseModel, BeforeValidator, ConfigDict, ValidationError

from agent.errors import WorkspaceFileError
from agent.models.protocol import ToolSpec
from agent.tools.protocol import Effect, Need, Outcome, ToolContext


class Arguments(BaseModel):
    """Base of the arguments of a tool. An argument that does not exist is an error, so that a misspelt one is not lost."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)


def scrubbed(text: Any) -> Any:
    """Join surrogate pairs that were sent as two halves, and replace a half that stands alone: it cannot be written as UTF-8."""
    if isinstance(text, str):
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


CleanText = Annotated[str, BeforeValidator(scrubbed)]
"""Text that can be written to a file."""


def at_most(characters: int) -> AfterValidator:
    """Refuse a blank text and one of more than so many characters; unlike pydantic's own limits, models are not told and pay nothing."""

    def check(text: str) -> str:
        if not text.strip():
            raise ValueError("must not be empty")
        if len(text) > characters:
            raise ValueError(f"has {len(text):,} characters; at most {characters:,} are possible")
        return text

    return AfterValidator(check)


A = TypeVar("A", bound=Arguments)


class CheckedTool(ABC, Generic[A]):
    """Base of the tools: checks arguments, and turns file errors into an answer for the model.

    ``output``, ``needs`` and ``private`` are those of ``agent.tools.protocol.DescribedTool``.
    """

    spec: ToolSpec
    effect: Effect
    output: str
    needs: tuple[Need, ...]
    private: bool

    def __init__(
        self,
        arguments: type[A],
        *,
        name: str,
        description: str,
        effect: Effect,
        output: str = "",
        needs: tuple[Need, ...] = (),
        private: bool = False,
    ) -> None:
        self._arguments = arguments
        self.output, self.needs, self.private = output, needs, private
        self.spec = ToolSpec(name=name, description=description, parameters=partial(parameters, arguments))
        self.effect = effect

    async def run(self, arguments: Mapping[str, Any], context: ToolContext) -> Outcome:
        """Check, then act. An argument that is null counts as not given: some models fill in every one."""
        given = {name: value for name, value in arguments.items() if value is not None}
        try:
            checked = self._arguments.model_validate(given)
        except ValidationError as error:
            return failed("\n".join(complaints(error, self._arguments)))
        try:
            return await self.act(checked, context)
        except WorkspaceFileError as trouble:
            return failed(str(trouble), trouble.hint, trouble.sources)

    def checked(self, arguments: Mapping[str, Any]) -> A | None:
        """Return the arguments as ``act`` would get them, or None where ``run`` refuses them."""
        try:
            return self._arguments.model_validate({name: value for name, value in arguments.items() if value is not None})
        except ValidationError:
            return None

    @abstractmethod
    async def act(self, arguments: A, context: ToolContext) -> Outcome:
        """Do it. WorkspaceFileError may be raised; it becomes the answer."""


def failed(text: str, hint: str = "", sources: tuple[str, ...] = ()) -> Outcome:
    """Build an answer that says what went wrong and what helps. ``sources`` are those of untrusted text in it."""
    return Outcome(text=f"{text} ({hint})" if hint else text, is_error=True, sources=sources)


def parameters(model: type[BaseModel]) -> dict[str, Any]:
    """Give a model's JSON Schema in its shortest stable form.

    Without fields that are excluded: they are taken, and seldom worth their tokens. Without titles; without defaults that are nothing
    or 1, since an optional value is simply one not required; without what a refusal says anyway (limits, and that there are no other
    arguments): it would be paid for with each request.
    """
    schema = model.model_json_schema()
    untold = {str(field.alias or name) for name, field in model.model_fields.items() if field.exclude}
    untold |= {
        str(choice) for field in model.model_fields.values() if field.exclude for choice in _aliases(field.validation_alias)
    }
    return {
        "type": "object",
        "properties": {name: _bare(one) for name, one in schema.get("properties", {}).items() if name not in untold},
        "required": schema.get("required", []),
    }


def _aliases(alias: object) -> tuple[object, ...]:
    return tuple(alias.choices) if isinstance(alias, AliasChoices) else (alias,)


def complaints(error: ValidationError, model: type[BaseModel]) -> list[str]:
    """Say what is wrong with each argument, a line each, as ``path: what``."""
    return [
        _complaint(one["loc"], one["type"], one["msg"], model) for one in error.errors(include_url=False, include_input=False)
    ]


def _complaint(location: tuple[int | str, ...], kind: str, message: str, model: type[BaseModel]) -> str:
    where = ".".join(str(scrubbed(part)) for part in location)[:80] or "arguments"
    if kind == "missing":
        return f"{where}: is required"
    if kind == "extra_forbidden":
        known = list(model.model_fields)
        import difflib

        near = difflib.get_close_matches(where, known, n=1)
        return f"{where}: no such argument; " + (f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}")
    if kind in {"too_short", "string_too_short"}:
        return f"{where}: must not be empty"
    return f"{where}: {scrubbed(message).removeprefix('Value error, ')}"


_NOTHING: Final = (None, "", False, 0, 1)
_UNTOLD: Final = frozenset({"title", "minLength", "maxLength", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"})


def _bare(schema: dict[str, Any]) -> dict[str, Any]:
    kept = {
        key: value
        for key, value in schema.items()
        if key not in _UNTOLD and not (key == "default" and value in _NOTHING and value is not True)
    }
    choices = [choice for choice in kept.pop("anyOf", []) if choice != {"type": "null"}]
    if len(choices) == 1:
        return {**_bare(choices[0]), **kept}
    if choices:
        kept["anyOf"] = choices
    return kept
