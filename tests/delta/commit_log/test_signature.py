"""What is kept of a version comes back as it was, and only under the scope's own key."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from lakewarden.catalog.target import ScopeTarget
from lakewarden.delta.commit_log.kept_versions import sign, verified
from lakewarden.delta.commit_log.version import Snapshot
from tests.delta.scopes import APP, flush, people, table_of, target

KEY = "0123456789abcdef" * 8


@pytest.fixture
def scope(tmp_path: Path) -> ScopeTarget:
    return replace(target(tmp_path / "t"), manifest_key=KEY)


def _written(scope: ScopeTarget) -> tuple[bytes, Snapshot]:
    flush(scope, people(1, 2))
    flush(scope, people(11), first_seq=2)
    text = (Path(scope.uri) / "manifest.json").read_bytes()
    kept = verified(text, KEY, APP)
    assert kept is not None
    return text, kept


def test_it_is_what_the_log_says(scope: ScopeTarget) -> None:
    _, kept = _written(scope)
    table = table_of(scope)
    assert tuple(file._replace(schema_version=None) for file in kept.files) == table.files()
    assert (kept.version, kept.watermark, kept.last_batch) == (table.version, table.watermark(APP), table.next_batch() - 1)
    assert (kept.digest, kept.state) == (table.digest, table.state(APP))
    written, read = kept.head, table.head
    assert json.loads(written.schema) == json.loads(read.schema)
    assert replace(written, schema="") == replace(read, schema="")


@pytest.mark.parametrize("key", ["", KEY[:-1], KEY[:-1] + "0"])
def test_another_key_opens_nothing(scope: ScopeTarget, key: str) -> None:
    text, _ = _written(scope)
    assert verified(text, key, APP) is None


def test_text_that_is_cut_off_opens_nothing(scope: ScopeTarget) -> None:
    text, _ = _written(scope)
    assert all(verified(text[:length], KEY, APP) is None for length in range(len(text)))


def test_text_that_was_changed_opens_nothing(scope: ScopeTarget) -> None:
    text, _ = _written(scope)
    for place in range(len(text)):
        changed = bytearray(text)
        changed[place] ^= 1
        assert verified(bytes(changed), KEY, APP) is None


def test_text_of_another_form_opens_nothing() -> None:
    assert verified(sign(b'{"delta_version": 1', KEY), KEY, APP) is None
    assert verified(sign(b"{broken", KEY), KEY, APP) is None
    assert verified(b"", KEY, APP) is None


def test_a_scope_without_a_key_keeps_nothing(scope: ScopeTarget) -> None:
    keyless = replace(scope, manifest_key="")
    flush(keyless, people(1))
    found = json.loads((Path(scope.uri) / "manifest.json").read_text())
    assert not found.keys() & {"snapshot", "mac"}
    assert not any("stats" in segment for segment in found["segments"])
