"""Two clients of K3's calls: a stock one of HTTP, and one that is generated from the OpenAPI document."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import schemathesis
from openapi_python_client import generate
from openapi_python_client.config import Config, ConfigFile, MetaType

from lakewarden.serve.http.k3_calls import snake
from lakewarden.serve.http.openapi import document

Call = Callable[..., tuple[int, Any]]
"""A call by its name, and its body by keywords: the status, and the answer as JSON has it."""

_DOCUMENT: Any = document()
_SCHEMA: Any = schemathesis.openapi.from_dict(_DOCUMENT)
_PACKAGE = "client_of_lakewarden"


def stock(client: httpx.Client) -> Call:
    """Checks each answer by the document, too."""

    def call(name: str, /, **body: object) -> tuple[int, Any]:
        path = f"/k3/v1/{name}"
        answer = client.post(path, json=body)
        _SCHEMA[path]["POST"].validate_response(answer)
        return answer.status_code, answer.json()

    return call


def generate_client(place: Path) -> None:
    """Writes the client into the directory, from which it can be imported then."""
    source = place / "openapi.json"
    source.write_text(json.dumps(document()))
    options = ConfigFile(post_hooks=[])
    made = Config.from_sources(options, MetaType.NONE, source, "utf-8", overwrite=False, output_path=place / _PACKAGE)
    problems = generate(config=made)
    assert not problems, problems
    sys.path.insert(0, str(place))


def generated(url: str, token: str) -> Call:
    """What the client's types leave out of a request or an answer is missing here."""
    client = importlib.import_module(f"{_PACKAGE}.client").AuthenticatedClient(base_url=url, token=token, timeout=60)
    models = importlib.import_module(f"{_PACKAGE}.models")

    def call(name: str, /, **body: object) -> tuple[int, Any]:
        asked = getattr(models, f"{name[0].upper()}{name[1:]}Request").from_dict(body)
        answer = importlib.import_module(f"{_PACKAGE}.api.k3.{snake(name)}").sync_detailed(client=client, body=asked)
        found = answer.parsed
        return int(answer.status_code), [one.to_dict() for one in found] if isinstance(found, list) else found.to_dict()

    return call
