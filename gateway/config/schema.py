"""The JSON Schema of the settings, with what each key means."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic.json_schema import GenerateJsonSchema

from gateway.config.field_docs import field_doc
from gateway.settings.root import Settings

if TYPE_CHECKING:
    from pydantic.json_schema import JsonSchemaValue
    from pydantic_core import core_schema


def schema() -> dict[str, Any]:
    """Return it, as JSON values."""
    made = Settings.model_json_schema(by_alias=True, schema_generator=_Explained)
    return {"$schema": GenerateJsonSchema.schema_dialect, **made}


class _Explained(GenerateJsonSchema):
    def model_schema(self, schema: core_schema.ModelSchema) -> JsonSchemaValue:
        """Add to each key of a section what stands behind it in the source."""
        made = super().model_schema(schema)
        model = schema["cls"]
        for name, field in model.model_fields.items():
            key = made.get("properties", {}).get(field.alias or name)
            if key is not None and (told := field_doc(model, field)):
                key.setdefault("description", told)
        return made
