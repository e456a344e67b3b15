from __future__ import annotations

from collections.abc import Callable

import pytest

from lakewarden.catalog.names import check_column, check_namespace, check_storage_id, check_table
from lakewarden.errors import InvalidArgument

_EVERY = [check_namespace, check_table, check_column]


@pytest.mark.parametrize("check", _EVERY)
@pytest.mark.parametrize(
    "name", ["a", "chat", "user_id", "firstName", "X9", "a" * 64, "key", "value", "date", "timestamp", "systems"]
)
def test_a_name_is_letters_digits_and_underscores(check: Callable[[str], str], name: str) -> None:
    assert check(name) == name


@pytest.mark.parametrize("check", _EVERY)
@pytest.mark.parametrize("name", ["", "a" * 65, "9a", "_a", "a b", "a.b", "a/b", "é", "a\n", "Ａ"])
def test_anything_else_is_refused(check: Callable[[str], str], name: str) -> None:
    with pytest.raises(InvalidArgument):
        check(name)


@pytest.mark.parametrize("name", ["select", "Table", "USER"])
def test_a_reserved_word_is_the_name_of_a_column_alone(name: str) -> None:
    assert check_column(name) == name
    for check in (check_namespace, check_table):
        with pytest.raises(InvalidArgument, match="reserved word"):
            check(name)


def test_only_a_namespace_may_hold_a_hyphen() -> None:
    assert check_namespace("kb-prod") == "kb-prod"
    for check in (check_table, check_column):
        with pytest.raises(InvalidArgument):
            check("a-b")


@pytest.mark.parametrize("name", ["system", "SYS", "kalamdb", "main", "information_schema", "Default"])
def test_namespaces_of_the_system_are_reserved(name: str) -> None:
    with pytest.raises(InvalidArgument, match="reserved"):
        check_namespace(name)


@pytest.mark.parametrize("name", ["_seq", "_SEQ", "_deleted", "_id", "_commit_seq"])
def test_columns_of_the_system_are_reserved(name: str) -> None:
    with pytest.raises(InvalidArgument, match="reserved"):
        check_column(name)


@pytest.mark.parametrize("name", ["local", "s3_prod", "S3-prod", "9"])
def test_a_storage_id_may_have_dashes(name: str) -> None:
    assert check_storage_id(name) == name


@pytest.mark.parametrize("name", ["", "a b", "a/b", "a.b", "é", "a" * 65])
def test_a_bad_storage_id_is_refused(name: str) -> None:
    with pytest.raises(InvalidArgument):
        check_storage_id(name)
