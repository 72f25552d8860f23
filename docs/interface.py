"""The page of the programming interface of the workbench, made from its own OpenAPI document."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

WORDS = {
    **{"string": "text", "integer": "whole number", "number": "number", "boolean": "true or false"},
    **{"object": "object", "null": "null"},
}
"""What the types of JSON are called."""


def document() -> dict[str, Any]:
    """The OpenAPI document, without a workbench."""
    from tomserve.web.routes import api

    app = api.DescribedApp(title=api.TITLE, description=api.DESCRIPTION)
    app.include_router(api.router)
    return app.openapi()


def routes(escaped: Callable[[str], str]) -> Iterator[str]:
    """Markdown: a section a route, with what it takes and gives. escaped: makes prose of a text."""
    told = document()
    schemas = told["components"]["schemas"]
    for path, methods in told["paths"].items():
        for method, route in methods.items():
            yield f"### `{method.upper()} {path}`\n"
            yield escaped(" ".join(route["description"].split())) + "\n"
            rows = [_parameter(one, escaped) for one in route.get("parameters", ()) if one["in"] != "path"]
            body = route.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema")
            rows += _fields(body, schemas, escaped) if body else []
            if rows:
                yield f"| {'field of the body' if body else 'parameter'} | type | what it means |\n|---|---|---|"
                yield from rows
                yield ""
            for status, answer in route["responses"].items():
                if status < "300":
                    yield f"`{status}`: {_answer(answer, escaped)}\n"
    yield "## What it tells\n"
    for name, schema in schemas.items():
        if schema.get("properties") and not name.endswith(("Query", "Request", "-Input")):
            yield f"### `{name}`\n"
            yield escaped(" ".join(schema.get("description", "").split())) + "\n"
            yield "| field | type | what it means |\n|---|---|---|"
            yield from _fields(schema, schemas, escaped)
            yield ""


def _fields(schema: dict[str, Any], schemas: dict[str, Any], escaped: Callable[[str], str]) -> list[str]:
    if "$ref" in schema:
        schema = schemas[schema["$ref"].rpartition("/")[2]]
    return [_row(name, field, escaped) for name, field in schema.get("properties", {}).items()]


def _parameter(parameter: dict[str, Any], escaped: Callable[[str], str]) -> str:
    return _row(parameter["name"], {**parameter["schema"], "description": parameter.get("description", "")}, escaped)


def _row(name: str, field: dict[str, Any], escaped: Callable[[str], str]) -> str:
    said = " ".join(str(field.get("description") or "").split())
    return f"| `{name}` | {escaped(_kind(field))} | {escaped(said)} |"


def _answer(answer: dict[str, Any], escaped: Callable[[str], str]) -> str:
    contents = answer.get("content", {})
    schema = contents.get("application/json", {}).get("schema")
    what = _kind(schema) if schema else ", ".join(contents)
    said = "" if answer["description"] == "Successful Response" else f"; {answer['description']}"
    return escaped(f"{what}{said}" if what else said.removeprefix("; ") or "nothing")


def _kind(schema: dict[str, Any]) -> str:
    """The type of a value, in words."""
    if "$ref" in schema:
        return f"`{schema['$ref'].rpartition('/')[2]}`"
    if "anyOf" in schema:
        return " or ".join(_kind(one) for one in schema["anyOf"])
    if "enum" in schema:
        return "one of " + ", ".join(f"`{json.dumps(one)}`" for one in schema["enum"])
    if "const" in schema:
        return f"`{json.dumps(schema['const'])}`"
    if schema.get("type") == "array":
        return f"list of {_kind(schema.get('items') or {})}"
    return WORDS.get(str(schema.get("type")), "value")
