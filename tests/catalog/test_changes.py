from __future__ import annotations

from dataclasses import replace

import pytest

from lakewarden.base.scope import TableName
from lakewarden.catalog.changes import objects as changes
from lakewarden.catalog.model import Catalog, Storage
from lakewarden.errors import AlreadyExists, InUse, InvalidArgument, NotFound
from tests.catalog.build import NOW, base_of, storage, table


@pytest.fixture
def catalog() -> Catalog:
    """One namespace `chat` and the USER table `chat.messages`."""
    return with_table(changes.add_namespace(changes.first_catalog(), "chat", NOW), "chat.messages")


def with_table(catalog: Catalog, name: str, **place: str) -> Catalog:
    return changes.add_table(catalog, table(name, **place), base_of)  # type: ignore[arg-type]  # `type` is a literal in the tests


def with_storage(catalog: Catalog, made: Storage) -> Catalog:
    return changes.add_storage(catalog, made)


def test_a_warehouse_begins_with_its_own_storage() -> None:
    local = changes.first_catalog().storages["local"]
    assert (local.base, local.user_template, local.shared_template) == (
        "data",
        "{namespace}/{tableName}/{userId}",
        "{namespace}/{tableName}",
    )


def test_a_change_leaves_the_catalog_that_it_was_given_alone(catalog: Catalog) -> None:
    before = replace(catalog, tables=dict(catalog.tables))
    changes.drop_table(catalog, TableName("chat", "messages"))
    with_table(catalog, "chat.rooms")
    assert catalog == before


@pytest.mark.parametrize("name", ["chat", "CHAT"])
def test_a_namespace_is_made_once(catalog: Catalog, name: str) -> None:
    with pytest.raises(AlreadyExists):
        changes.add_namespace(catalog, name, NOW)


def test_a_namespace_with_tables_goes_only_with_them(catalog: Catalog) -> None:
    with pytest.raises(InUse, match=r"chat\.messages"):
        changes.drop_namespace(catalog, "chat")
    assert changes.drop_namespace(catalog, "chat", cascade=True) == changes.first_catalog()
    with pytest.raises(NotFound):
        changes.drop_namespace(catalog, "other")


def test_a_table_needs_its_namespace_and_storage(catalog: Catalog) -> None:
    with pytest.raises(NotFound, match="CREATE NAMESPACE shop"):
        with_table(catalog, "shop.orders")
    with pytest.raises(NotFound, match="Storage 'cold' does not exist"):
        with_table(catalog, "chat.orders", storage_id="cold")


@pytest.mark.parametrize("name", ["chat.messages", "chat.Messages"])
def test_a_table_is_made_once(catalog: Catalog, name: str) -> None:
    with pytest.raises(AlreadyExists):
        with_table(catalog, name)


def test_a_table_name_follows_the_rules(catalog: Catalog) -> None:
    with pytest.raises(InvalidArgument):
        with_table(catalog, "chat._hidden")


def test_a_dropped_table_is_gone_and_another_may_follow(catalog: Catalog) -> None:
    without = changes.drop_table(catalog, TableName("chat", "messages"))
    assert not without.tables
    assert with_table(without, "chat.messages") == catalog
    with pytest.raises(NotFound):
        changes.drop_table(without, TableName("chat", "messages"))


@pytest.mark.parametrize(
    ("other", "type"),
    [
        (storage("cold", "data"), "USER"),  # the same place, by another name
        (storage("cold", "/lake/data"), "USER"),
        (storage("cold", "/lake", "data/{namespace}/{tableName}/{userId}"), "USER"),
        (storage("cold", "data", shared_template="chat/messages/{namespace}/{tableName}"), "SHARED"),  # below the other
        (storage("cold", "/lake/data/chat/messages/deep"), "USER"),
        (storage("cold", "/lake/DATA", folds_case=True), "USER"),
    ],
)
def test_a_table_that_meets_another_one_is_refused(catalog: Catalog, other: Storage, type: str) -> None:
    """`chat.messages` is at /lake/data/chat/messages. Another catalog entry has that place, so that the names differ."""
    (messages,) = catalog.tables.values()
    taken = with_storage(replace(catalog, tables={TableName("chat", "first"): messages}), other)
    with pytest.raises(InUse, match="choose another storage"):
        with_table(taken, "chat.messages", type=type, storage_id="cold")


def test_a_table_that_holds_another_one_is_refused(catalog: Catalog) -> None:
    above = changes.add_namespace(
        with_storage(catalog, storage("cold", "/", shared_template="{namespace}/{tableName}")), "lake", NOW
    )
    with pytest.raises(InUse, match=r"lake\.data would be at /lake/data"):
        with_table(above, "lake.data", type="SHARED", storage_id="cold")


def test_a_table_below_another_ones_prefix_is_refused(catalog: Catalog) -> None:
    below = with_storage(catalog, storage("cold", "data/chat/messages"))
    with pytest.raises(InUse, match=r"chat\.messages is at /lake/data/chat/messages"):
        with_table(below, "chat.rooms", storage_id="cold")


def test_tables_side_by_side_are_welcome(catalog: Catalog) -> None:
    beside = with_storage(catalog, storage("cold", "data", "cold/{namespace}/{tableName}/{userId}"))
    assert len(with_table(with_table(beside, "chat.rooms", storage_id="cold"), "chat.messages2").tables) == 3


def test_a_storage_gets_canonical_templates_and_a_name(catalog: Catalog) -> None:
    made = with_storage(catalog, storage("cold", "s3://cold", "{namespace}/{table_name}/{shard}/{user_id}")).storages["cold"]
    assert (made.user_template, made.shared_template, made.name) == (
        "{namespace}/{tableName}/{shard}/{userId}",
        "{namespace}/{tableName}",
        "cold",
    )


@pytest.mark.parametrize(
    ("made", "error"),
    [
        (storage("local", "/x"), AlreadyExists),
        (storage("a b", "/x"), InvalidArgument),
        (storage("cold", ""), InvalidArgument),
        (storage("cold", "/lake/_lakewarden/x"), InvalidArgument),
        (storage("cold", "/x", "{userId}"), InvalidArgument),
        (storage("cold", "/x", "", "{namespace}"), InvalidArgument),
    ],
)
def test_a_bad_storage_is_refused(catalog: Catalog, made: Storage, error: type[Exception]) -> None:
    with pytest.raises(error):
        with_storage(catalog, made)


def test_a_storage_is_altered_where_no_table_would_be_lost(catalog: Catalog) -> None:
    altered = changes.alter_storage(
        catalog, "local", name="Here", description="d", shared_template="shared/{namespace}/{tableName}"
    ).storages["local"]
    assert (altered.name, altered.description, altered.shared_template) == ("Here", "d", "shared/{namespace}/{tableName}")
    with pytest.raises(InUse, match=r"chat\.messages"):
        changes.alter_storage(catalog, "local", user_template="u/{namespace}/{tableName}/{userId}")
    assert (
        changes.alter_storage(catalog, "local", user_template="{namespace}/{table_name}/{user_id}").storages == catalog.storages
    )
    with pytest.raises(NotFound):
        changes.alter_storage(catalog, "cold", name="x")


def test_a_storage_goes_when_no_table_uses_it(catalog: Catalog) -> None:
    cold = with_storage(catalog, storage("cold", "/cold"))
    assert changes.drop_storage(cold, "cold") == catalog
    with pytest.raises(InUse, match=r"1 table\(s\) still using it"):
        changes.drop_storage(with_table(cold, "chat.rooms", storage_id="cold"), "cold")
    with pytest.raises(InvalidArgument, match="cannot be dropped"):
        changes.drop_storage(catalog, "local")
    with pytest.raises(NotFound):
        changes.drop_storage(catalog, "cold")


def test_case_folding_is_settled_before_the_first_table(catalog: Catalog) -> None:
    assert changes.fold_case(changes.first_catalog(), "local").storages["local"].folds_case
    with pytest.raises(InUse):
        changes.fold_case(catalog, "local")
