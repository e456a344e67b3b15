"""Paths read backwards: for every id, what storage writes is recognised, and nobody else's."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lakewarden.base.scope import Scope, TableName
from lakewarden.maintenance.verify.contents import match, stands_for, within
from lakewarden.storage.paths import encode, scope_path

_IDS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=256)
_TEMPLATES = ["{namespace}/{tableName}/{userId}", "x/{namespace}/t_{tableName}/{shard}/u={userId}/y"]


@given(_IDS, _IDS, st.booleans())
def test_an_encoded_id_stands_for_itself_alone(one: str, other: str, folds_case: bool) -> None:
    assert stands_for(encode(one, folds_case), one)
    assert stands_for(encode(one, folds_case), other) == (one == other)


@given(_IDS, st.sampled_from(_TEMPLATES[:2]), st.booleans())
def test_a_scopes_path_is_recognised(user: str, template: str, folds_case: bool) -> None:
    path = scope_path(template, Scope(TableName("chat", "Notes"), user), folds_case)
    found = match(template, "chat", "Notes", f"{path}/_delta_log/x.json")
    assert found is not None
    assert stands_for(found.user, user)
    assert found.rest == "_delta_log/x.json"
    assert match(template, "chat", "Likes", f"{path}/x") is None


def test_directories_below_a_table() -> None:
    template = _TEMPLATES[0]
    assert within(template, "chat", "notes", "chat/notes/backup/ann/x.parquet") == ["backup", "ann"]
    assert within(template, "chat", "notes", "chat/likes/ann/x.parquet") is None
