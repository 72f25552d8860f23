"""The OpenAPI document describes what the programming interface does: schemathesis sends what it allows, and what not."""

from __future__ import annotations

import importlib
import shutil
from typing import Any

import pytest
import schemathesis
from fastapi import FastAPI
from hypothesis import HealthCheck, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import checks, openapi
from schemathesis.generation.modes import GenerationMode

from tests.conftest import ROOT
from tests.helpers.workbenches import ADDRESS
from tomserve.content.places import runs_root
from tomserve.web.app import make
from tomserve.web.client import Workbench
from tomserve.web.settings import Settings

checks.load_all_checks()
CHECKS = [
    checks.CHECKS.get_one(name)
    for name in (
        *("not_a_server_error", "status_code_conformance", "content_type_conformance", "response_headers_conformance"),
        *("response_schema_conformance", "negative_data_rejection", "allow_header_conformance", "ignored_auth"),
    )
]
CONFIG = {
    "generation": {"mode": "all", "with-security-parameters": False},
    "checks": {"negative_data_rejection": {"expected-statuses": [400, 401, 403, 404, 405, 409, 413, 414, 422]}},
}
EXAMPLES = 6


def _app() -> FastAPI:
    shutil.copytree(ROOT / "runs/example", runs_root() / "example")
    return make(Settings())


def test_every_route_is_described_in_words() -> None:
    document = _app().openapi()
    assert document["openapi"].startswith("3.1")
    for path, methods in document["paths"].items():
        for method, told in methods.items():
            where = f"{method} {path}"
            assert path.startswith("/api/v1/"), where
            assert told["summary"], where
            assert told["description"].rstrip().endswith("."), where
            assert told["tags"], where
            assert {"401", "403", "404", "409", "422"} <= set(told["responses"]), where
            for status, answer in told["responses"].items():
                assert answer["description"], where
                if status >= "400":
                    assert answer["content"]["application/json"]["schema"]["$ref"].endswith("/Refusal"), where
            assert ("security" in told) == (path != "/api/v1/health"), where
            for parameter in told.get("parameters", ()):
                assert parameter["name"] not in ("request", "person", "bench", "line"), where
    assert set(document["components"]["securitySchemes"]) == {"HTTPBearer", "APIKeyCookie"}


def test_every_route_does_what_is_described() -> None:
    app = _app()
    config = schemathesis.Config.from_dict(CONFIG)
    document = app.openapi()
    schema = openapi.from_dict(document, config=config)
    schema.app = app
    headers = {"Authorization": f"Bearer {app.state.access.token}"}
    found = [result.ok() for result in schema.get_all_operations()]
    assert len(found) >= 14
    tame: set[str] = set()
    for operation in found:
        for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE):

            @given(case=operation.as_strategy(generation_mode=mode))
            @settings(
                max_examples=EXAMPLES,
                deadline=None,
                derandomize=True,
                database=None,
                suppress_health_check=list(HealthCheck),
            )
            def follow(case: Any) -> None:
                case.call_and_validate(base_url=ADDRESS, headers=headers, checks=CHECKS)

            try:
                follow()
            except Unsatisfiable:  # where any text is a name, nothing wrong can be sent
                assert mode is GenerationMode.NEGATIVE
                tame.add(operation.label)
    assert not tame & {"POST /api/v1/experiments", "GET /api/v1/runs", "PATCH /api/v1/runs/{name}"}


def test_the_reference_tells_of_every_route_and_every_method_of_the_client(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    generated = importlib.import_module("generated")
    page = generated.filled((ROOT / "docs/reference/api.md").read_text())
    for path, methods in _app().openapi()["paths"].items():
        for method in methods:
            assert f"### `{method.upper()} {path}`" in page
    for name in vars(Workbench):
        assert name.startswith("_") or f"{{py:method}} {name}(" in page
    assert "<!--" not in page
