"""Requests made from the OpenAPI document: no answer is a server's fault or off the document."""

from __future__ import annotations

from typing import Any

import httpx
import hypothesis
import pytest
import schemathesis
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import content_type_conformance, response_schema_conformance, status_code_conformance

from lakewarden.serve.http.openapi import PATHS, document

_CALLS = [path for path in PATHS if path.startswith(("/v1/", "/k3/")) and path != "/v1/auth/logout"]
_DOCUMENT: Any = document()
_SCHEMA: Any = schemathesis.openapi.from_dict(_DOCUMENT)
_CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]


@pytest.mark.slow
@pytest.mark.parametrize("path", _CALLS)
def test_every_call_answers_as_the_document_says(operator: httpx.Client, path: str) -> None:
    made = _SCHEMA[path]["POST"].as_strategy()

    @hypothesis.settings(
        max_examples=10,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=[*hypothesis.HealthCheck],
    )
    @hypothesis.given(case=made)
    def answers(case: Any) -> None:
        case.call_and_validate(base_url=str(operator.base_url), headers=dict(operator.headers), checks=_CHECKS)

    answers()
