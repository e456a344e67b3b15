"""Requests made from the OpenAPI document: no answer is a server's fault or off the document."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import httpx
import hypothesis
import pytest
import schemathesis
from hypothesis import strategies
from schemathesis.checks import not_a_server_error
from schemathesis.core.failures import FailureGroup
from schemathesis.specs.openapi.checks import content_type_conformance, response_schema_conformance, status_code_conformance

from lakewarden import Lakehouse
from lakewarden.serve.http.openapi import document
from tests.serve.conftest import Moving

_DOCUMENT: Any = document()
_CALLS = [
    (path, method)
    for path, methods in _DOCUMENT["paths"].items()
    for method in methods
    if path.startswith(("/v1/", "/k3/")) and path != "/v1/auth/logout"
]
_SCHEMA: Any = schemathesis.openapi.from_dict(_DOCUMENT)
_CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]


_THERE = {"bucket": "kb", "table": "events", "user": "ann"}
"""Names with which a call gets as far as its answer."""


@pytest.fixture(scope="module", autouse=True)
def table(lake: Lakehouse) -> None:
    lake.k3.create_bucket("kb")
    lake.k3.create_table("kb", "events", columns=[{"name": "id", "type": "COLUMN_TYPE_LONG"}], merge_keys=["id"])


@pytest.fixture(autouse=True)
def later(clock: Moving) -> None:
    """The refusals of the tests before count no longer."""
    clock.moved += timedelta(minutes=2)


@pytest.mark.slow
@pytest.mark.parametrize(("path", "method"), _CALLS)
@pytest.mark.parametrize("cases", [4, pytest.param(20, marks=pytest.mark.night)])
def test_every_call_answers_as_the_document_says(operator: httpx.Client, path: str, method: str, cases: int) -> None:
    made = _SCHEMA[path][method.upper()].as_strategy()

    @hypothesis.settings(
        max_examples=cases,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=[*hypothesis.HealthCheck],
    )
    @hypothesis.given(case=made, there=strategies.booleans())
    def answers(case: Any, there: bool) -> None:
        if there and isinstance(case.body, dict):
            case.body |= {name: _THERE[name] for name in case.body.keys() & _THERE.keys()}
        case.call_and_validate(base_url=str(operator.base_url), headers=dict(operator.headers), checks=_CHECKS)

    answers()


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM app.notes",
        "INSERT INTO app.notes VALUES (1, 'x')",
        "CREATE NAMESPACE IF NOT EXISTS app",
        "STORAGE FLUSH TABLE app.notes",
        "SELECT count(*) AS n FROM app.notes; SELECT * FROM system.jobs",
    ],
)
def test_answers_to_statements_fit_the_document(operator: httpx.Client, sql: str) -> None:
    answer = operator.post("/v1/api/sql", json={"sql": sql})
    assert answer.status_code == 200, answer.text
    _SCHEMA["/v1/api/sql"]["POST"].validate_response(answer)


def test_an_answer_off_the_document_is_seen(operator: httpx.Client) -> None:
    other = operator.post("/k3/v1/getEngine", json={"bucket": "kb"})
    assert other.status_code == 200
    with pytest.raises(FailureGroup):
        _SCHEMA["/k3/v1/getTable"]["POST"].validate_response(other)
