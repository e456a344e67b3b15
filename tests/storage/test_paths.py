"""No two users share a path, none leaves its place, and templates that would let them are refused."""

from __future__ import annotations

import hashlib
import unicodedata

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from lakewarden.base.scope import Scope, TableName
from lakewarden.errors import InvalidArgument
from lakewarden.storage.location import overlaps
from lakewarden.storage.paths import check_template, check_user, encode, scope_path, table_prefix

MESSAGES = TableName("chat", "messages")
USER_TEMPLATE = "{namespace}/{tableName}/{userId}"

_HOSTILE = st.sampled_from(list('aAzZ09._-@!%/\\=:*?"<>|{}~ \t\n\0ée\u0301ﬁＡа\U0001f600'))
users = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=256),
    st.text(_HOSTILE, min_size=1, max_size=256),
    st.text(st.sampled_from("aA!.2"), min_size=190, max_size=256),
)


@given(one=users, other=users, folds_case=st.booleans())
@example("a/b", "a!2fb", False)
@example("A", "a", True)
@example("%2e%2e", "..", False)
@example("a.", "a", True)
@example("é", "e\u0301", False)
@example("!!" + "a" * 200, "a" * 256, False)
def test_two_users_never_share_a_segment(one: str, other: str, folds_case: bool) -> None:
    assume(one != other)
    first, second = encode(one, folds_case), encode(other, folds_case)
    assert (first.lower() != second.lower()) if folds_case else (first != second)


@given(user=users, folds_case=st.booleans())
@example("..", False)
@example(".", True)
def test_a_segment_is_safe_everywhere(user: str, folds_case: bool) -> None:
    segment = encode(user, folds_case)
    assert 1 <= len(segment.encode()) <= 255
    assert set(segment) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.@!")
    assert not segment.startswith(".")
    if folds_case:
        assert segment == segment.lower()
        assert not segment.endswith(".")


@pytest.mark.parametrize("user", ["u_42", "a.b-c@d", "x" * 200, "A", "a.", "-", "@"])
def test_plain_ids_stand_as_they_are(user: str) -> None:
    assert encode(user, folds_case=False) == user


@pytest.mark.parametrize(
    ("user", "folds_case", "expected"),
    [
        ("a/b", False, "a!2fb"),
        ("..", False, "!2e."),
        ("..", True, "!2e!2e"),
        (".", True, "!2e"),
        ("%2e%2e", False, "!252e!252e"),
        ("A", True, "!41"),
        ("é", False, "!c3!a9"),
        ("a=1", False, "a!3d1"),
        ("!!", False, "!21!21"),
    ],
)
def test_the_rest_is_escaped_byte_by_byte(user: str, folds_case: bool, expected: str) -> None:
    assert encode(user, folds_case) == expected


def test_long_ids_end_in_their_digest() -> None:
    one, other = "x" * 255 + "1", "x" * 255 + "2"
    assert encode(one, False) == "x" * 100 + "!!" + hashlib.sha256(one.encode()).hexdigest()
    assert encode(one, False) != encode(other, False)


def test_composed_and_decomposed_are_two_users() -> None:
    composed = "é"
    assert encode(composed, False) != encode(unicodedata.normalize("NFD", composed), False)


@pytest.mark.parametrize("user", ["", "x" * 257, "\ud800", 42, None, b"u"])
def test_what_is_no_user_id_is_refused(user: object) -> None:
    with pytest.raises(InvalidArgument):
        check_user(user)


@given(user=users)
def test_any_text_of_up_to_256_characters_is_a_user_id(user: str) -> None:
    assert check_user(user) == user


@pytest.mark.parametrize(
    ("given_template", "canonical"),
    [
        ("", USER_TEMPLATE),
        (USER_TEMPLATE, USER_TEMPLATE),
        ("{namespace}/{tableName}/{shard}/{userId}", "{namespace}/{tableName}/{shard}/{userId}"),
        ("ns_{namespace}/tbl_{table_name}/usr_{user-id}/data", "ns_{namespace}/tbl_{tableName}/usr_{userId}/data"),
        ("users/{namespace_id}/{table-id}/{shard_id}/{user_id}", "users/{namespace}/{tableName}/{shard}/{userId}"),
        ("{namespaceId}/{tableId}/{userId}", USER_TEMPLATE),
    ],
)
def test_a_user_template_has_one_spelling(given_template: str, canonical: str) -> None:
    assert check_template("USER", given_template) == canonical


def test_a_shared_template_has_no_user() -> None:
    assert check_template("SHARED", "") == "{namespace}/{tableName}"
    assert check_template("SHARED", "shared/{namespace}/{table_id}") == "shared/{namespace}/{tableName}"


@pytest.mark.parametrize(
    ("kind", "template", "says"),
    [
        ("USER", "{namespace}/{tableName}", "lacks {userId}"),
        ("USER", "{userId}", "lacks {namespace}, {tableName}"),
        ("USER", "plain", "lacks"),
        ("USER", "{userId}/{namespace}/{tableName}", "out of order"),
        ("USER", "{namespace}/{tableName}/{userId}/{shard}", "out of order"),
        ("USER", "{namespace}/{tableName}_{userId}", "two placeholders in one part"),
        ("USER", "{namespace}/{tableName}/{userId}/{userId}", "repeats"),
        ("USER", "{namespace}/{tableName}/{tenant}/{userId}", "placeholder {tenant}"),
        ("USER", "/{namespace}/{tableName}/{userId}", "must not be empty"),
        ("USER", "{namespace}/{tableName}/{userId}/", "must not be empty"),
        ("USER", "../{namespace}/{tableName}/{userId}", "begin with '.'"),
        ("USER", ".x{namespace}/{tableName}/{userId}", "begin with '.'"),
        ("USER", "a b/{namespace}/{tableName}/{userId}", "ASCII letters"),
        ("USER", "a%2f/{namespace}/{tableName}/{userId}", "ASCII letters"),
        ("USER", "!/{namespace}/{tableName}/{userId}", "ASCII letters"),
        ("USER", "{namespace}/{tableName}/{userId}/_delta_log", "_delta_log"),
        ("USER", "x" * 60 + "/{namespace}/{tableName}/{userId}", "more than 50"),
        ("USER", "{namespace}/{tableName}/{userId", "lacks {userId}"),
        ("SHARED", "{namespace}/{tableName}/{userId}", "placeholder {userId}"),
        ("SHARED", "{tableName}/{namespace}", "out of order"),
        ("SHARED", "{namespace}", "lacks {tableName}"),
    ],
)
def test_a_bad_template_is_refused_with_what_is_wrong(kind: str, template: str, says: str) -> None:
    with pytest.raises(InvalidArgument, match="template") as refusal:
        check_template("USER" if kind == "USER" else "SHARED", template)
    assert says in refusal.value.message


def test_a_scope_lies_where_the_template_says() -> None:
    digest = hashlib.sha256(b"a/b").hexdigest()
    template = "t/{namespace}/x{tableName}/{shard}/u={userId}"
    assert scope_path(template, Scope(MESSAGES, "a/b"), False) == f"t/chat/xmessages/{digest[:2]}/u=a!2fb"
    assert scope_path("{namespace}/{tableName}", Scope(MESSAGES), False) == "chat/messages"
    assert scope_path("{namespace}/{tableName}", Scope(TableName("Chat", "M")), True) == "!43hat/!4d"


def test_a_user_named_like_a_placeholder_is_only_a_user() -> None:
    assert scope_path(USER_TEMPLATE, Scope(MESSAGES, "{shard}"), False) == "chat/messages/!7bshard!7d"


@pytest.mark.parametrize(("template", "user"), [(USER_TEMPLATE, None), ("{namespace}/{tableName}", "u")])
def test_a_scope_has_a_user_exactly_where_the_table_wants_one(template: str, user: str | None) -> None:
    with pytest.raises(InvalidArgument):
        scope_path(template, Scope(MESSAGES, user), False)


@pytest.mark.parametrize(
    ("template", "prefix"),
    [
        (USER_TEMPLATE, "chat/messages"),
        ("a/{namespace}/b/{tableName}/c/{shard}/{userId}", "a/chat/b/messages/c"),
        ("{namespace}/{tableName}/u_{userId}/x", "chat/messages"),
        ("{namespace}/{tableName}", "chat/messages"),
    ],
)
def test_a_table_lies_below_its_prefix(template: str, prefix: str) -> None:
    assert table_prefix(template, MESSAGES, False) == prefix


@pytest.mark.parametrize("template", [USER_TEMPLATE, "{namespace}/{tableName}/{shard}/u{userId}/d"])
@given(user=users, folds_case=st.booleans())
def test_every_scope_lies_inside_its_tables_prefix(template: str, user: str, folds_case: bool) -> None:
    path = scope_path(template, Scope(MESSAGES, user), folds_case)
    prefix = table_prefix(template, MESSAGES, folds_case)
    assert path.startswith(f"{prefix}/")
    assert overlaps(prefix, path)
    assert path.count("/") == template.count("/")
