"""A JSON schema that Inspect sends as it stands. It needs inspect_ai.

It has a module of its own, because Inspect may load the tasks from their file, where pydantic cannot complete a class.
"""

from __future__ import annotations

from typing import Any

from inspect_ai.util import JSONSchema
from pydantic import PrivateAttr, model_serializer


class WholeSchema(JSONSchema):
    """A schema with all its keywords in their order. Inspect's own form of one knows no lengths of lists and no
    constants."""

    _given: dict[str, Any] = PrivateAttr(default_factory=dict)

    @classmethod
    def of(cls, schema: dict[str, Any]) -> JSONSchema:
        """The schema of a turn."""
        made = cls.model_validate(schema)
        made._given = schema
        return made

    @model_serializer(mode="plain")
    def _as_given(self) -> dict[str, Any]:
        return self._given
