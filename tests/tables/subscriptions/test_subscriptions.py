"""Where subscriptions begin and end: retention, restores, erasures, drops, schemas, rights, STREAM tables, fan-out."""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from lakewarden import Column, Lakehouse
from lakewarden.base.setting_sections import LogSettings
from lakewarden.base.settings import Settings
from lakewarden.catalog.evolution import AddColumn, DropColumn, RenameColumn, SetOptions
from lakewarden.catalog.store import CatalogStore
from lakewarden.catalog.target import ScopeTarget
from lakewarden.delta.scope import open_scope
from lakewarden.delta.table import ScopeTable
from lakewarden.errors import (
    BeingErased,
    Ended,
    InvalidArgument,
    LakewardenError,
    NotFound,
    PermissionDenied,
    StorageUnavailable,
    Unsupported,
)
from lakewarden.log.logs import Logs
from lakewarden.log.objects.cache import HeaderCache
from lakewarden.log.objects.cuts.closing import close_user, open_user
from lakewarden.log.objects.trail import read_trail
from lakewarden.tables.changes.follower import Manner
from lakewarden.tables.changes.log_reader import Event
from lakewarden.tables.changes.subscription import Subscription
from lakewarden.tables.client import TableClient
from tests.fixtures.clock import Clock
from tests.fixtures.lakes import NOTES, lake_fixture, make_notes, notes
from tests.fixtures.patience import PATIENCE
from tests.log.build import Store

ALL = f"SELECT * FROM {NOTES}"


lake = lake_fixture(clock=True)


@pytest.fixture
def table(lake: Lakehouse) -> TableClient:
    return make_notes(lake)


def told(events: list[Event]) -> list[tuple[str, object]]:
    return [(each.kind, each.row["id"]) for each in events]


def shared(lake: Lakehouse, options: dict[str, str] | None = None) -> TableClient:
    lake.create_namespace("chat", if_not_exists=True)
    columns = [Column("id", "BIGINT"), Column("text", "TEXT")]
    return lake.create_table("chat.board", type="SHARED", columns=columns, primary_key=["id"], options=options)


@pytest.mark.slow
def test_a_from_seq_works_for_as_long_as_rows_are_kept_and_then_names_the_oldest(
    lake: Lakehouse, table: TableClient, clock: Clock
) -> None:
    first = table.write(notes({1: "a"}), user="u").last_seq
    second = table.write(notes({2: "b"}), user="u").last_seq
    lake.flush()
    clock.forward(3599)
    third = table.write(notes({1: "c"}), user="u").last_seq
    lake.flush()
    with lake.subscribe(ALL, user="u", from_seq=first) as one:
        assert told(one.poll()) == [("insert", 2), ("update", 1)]
    clock.forward(2)
    table.write(notes({9: "z"}), user="other")
    lake.flush()
    with pytest.raises(InvalidArgument, match=f"the oldest that works is {second}"):
        lake.subscribe(ALL, user="u", from_seq=first)
    with lake.subscribe(ALL, user="u", from_seq=second) as one:
        assert told(one.poll()) == [("update", 1)]
    clock.forward(9000)
    table.write(notes({9: "z"}), user="other")
    lake.flush()
    with lake.subscribe(ALL, user="u", from_seq=third) as one:
        assert one.poll() == [], "who has missed nothing may come as late as they like"
    for wrong in (-2, 1 << 60):
        with pytest.raises(InvalidArgument, match=f"from_seq {wrong} is not one"):
            lake.subscribe(ALL, user="u", from_seq=wrong)


def test_rows_that_waited_long_for_their_flush_are_kept_from_then_on(lake: Lakehouse, table: TableClient, clock: Clock) -> None:
    first = table.write(notes({1: "a"}), user="slow").last_seq
    for number in range(3):
        table.write(notes({number: "x"}), user="quick")
        lake.flush(user="quick")
        clock.forward(3000)
    table.write(notes({2: "b"}), user="slow")
    table.delete([{"id": 1}], user="slow")
    lake.flush()
    with lake.subscribe(ALL, user="slow", from_seq=first) as one:
        assert told(one.poll()) == [("insert", 2), ("delete", 1)]


def test_nothing_is_kept_where_the_settings_say_so(warehouse_uri: str) -> None:
    settings = Settings(log=LogSettings(retention_seconds=0))
    with Lakehouse.open(warehouse_uri, settings=settings) as lake:
        table = make_notes(lake)
        seq = table.write(notes({1: "a"}), user="u").last_seq
        with lake.subscribe(ALL, user="u") as live:
            live.poll()
            table.write(notes({1: "b"}), user="u")
            lake.flush()
            with pytest.raises(InvalidArgument, match="oldest from_seq that works"):
                live.poll()
        with pytest.raises(InvalidArgument, match="the oldest that works is"):
            lake.subscribe(ALL, user="u", from_seq=seq)


def test_nobody_sees_what_is_anothers(lake: Lakehouse, table: TableClient) -> None:
    table.write(notes({1: "secret"}), user="ada")
    with lake.session(user="bob", role="user").subscribe(ALL) as bob, lake.session(user="ada").subscribe(ALL) as ada:
        assert (bob.poll(), told(ada.poll())) == ([], [("initial", 1)])
        table.write(notes({2: "secret"}), user="ada")
        lake.flush()
        assert (bob.poll(), told(ada.poll())) == ([], [("insert", 2)])


@pytest.mark.slow
@pytest.mark.disk
def test_a_shared_table_is_read_once_for_all_subscribers(warehouse_uri: str) -> None:
    one, many = (_reads(f"{warehouse_uri}{count}", count) for count in (1, 20))
    assert one == many == {"segments": 4, "history": 2, "cuts": 1}


def _reads(uri: str, subscribers: int) -> Counter[str]:
    """Objects of the log that were read, by kind, while rows were written, flushed and told."""
    reads: Counter[str] = Counter()
    with Lakehouse.open(uri) as plain:
        store = Store(Path(plain.warehouse.state.uri))
        lake = Lakehouse(replace(plain.warehouse, state=store, logs=Logs(store)))
        board = shared(plain)
        live = [lake.subscribe("SELECT * FROM chat.board") for _ in range(subscribers)]
        store.before = lambda call, key: reads.update([key.split("/")[2]] if call == "get" and key.startswith("log/") else [])
        for number in range(3):
            board.write(notes({number: "a"}))
            if number == 2:
                plain.flush()
            for each in live:
                assert told(each.poll()) == [("insert", number)]
        for each in live:
            each.close()
    return reads


def test_followers_share_their_looks(lake: Lakehouse) -> None:
    board = shared(lake)
    found: list[list[Event]] = [[], []]

    def follow(number: int, live: Subscription) -> None:
        found[number] += [next(iter(live)) for _ in range(2)]

    live = [lake.subscribe("SELECT * FROM chat.board", interval=0.01, timeout=PATIENCE) for _ in found]
    threads = [threading.Thread(target=follow, args=each) for each in enumerate(live)]
    for thread in threads:
        thread.start()
    for number in range(2):
        board.write(notes({number: "a"}))
    for thread in threads:
        thread.join(PATIENCE)
    assert [told(events) for events in found] == [[("insert", 0), ("insert", 1)]] * 2
    for each in live:
        each.close()


def test_a_look_that_is_shared_has_what_who_is_further_behind_lacks(lake: Lakehouse) -> None:
    board, query = shared(lake), "SELECT * FROM chat.board"
    with lake.subscribe(query) as one, lake.subscribe(query) as other:
        for number in (1, 2):
            board.write(notes({number: "a"}))
            assert told(one.poll()) == [("insert", number)]
        assert told(other.poll(max_age=PATIENCE)) == [("insert", 1), ("insert", 2)]


def test_who_leaves_in_the_midst_of_events_goes_on_behind_the_last_that_was_taken(lake: Lakehouse, table: TableClient) -> None:
    table.write(notes({1: "a", 2: "b"}), user="u")
    with lake.subscribe(ALL, user="u") as live:
        assert next(iter(live)).row["id"] == 1
        assert live.seq is None, "who begins again gets all initial rows"
    with lake.subscribe(ALL, user="u") as live:
        live.poll()
        for number in (3, 4, 5):
            table.write(notes({number: "c"}), user="u")
        assert next(iter(live)).row["id"] == 3
        place = live.seq
    with lake.subscribe(ALL, user="u", from_seq=place) as again:
        assert told(again.poll()) == [("insert", 4), ("insert", 5)]


def test_an_error_comes_behind_the_events_before_it(lake: Lakehouse, table: TableClient) -> None:
    table.write(notes({1: "a"}), user="u")
    with lake.subscribe(ALL, user="u") as live:
        lake.drop_table(NOTES)
        assert told(live.poll()) == [("initial", 1)]
        for _ in range(2):
            with pytest.raises(NotFound):
                live.poll()


def test_iterating_ends_when_nothing_comes_for_the_timeout(lake: Lakehouse, table: TableClient) -> None:
    waited: list[float] = []

    def pause(seconds: float) -> None:
        waited.append(seconds)
        if len(waited) == 3:
            table.write(notes({2: "b"}), user="u")

    table.write(notes({1: "a"}), user="u")
    with lake.subscribe(ALL, user="u", interval=1, timeout=4, pause=pause) as live:
        assert live.seq is None
        assert told(list(live)) == [("initial", 1), ("insert", 2)]
        assert sum(waited) == 7
        assert live.seq is not None


def test_a_restore_ends_what_was_followed(lake: Lakehouse, table: TableClient) -> None:
    table.write(notes({1: "a"}), user="u")
    lake.flush()
    seq = table.write(notes({2: "b"}), user="u").last_seq
    with lake.subscribe(ALL, user="u") as live, lake.subscribe(ALL, user="other") as other:
        live.poll()
        lake.restore(NOTES, user="u", version=0, dry_run=False)
        assert other.poll() == []
        with pytest.raises(Ended, match="restored"):
            live.poll()
    with pytest.raises(InvalidArgument, match="restored"):
        lake.subscribe(ALL, user="u", from_seq=seq)
    with lake.subscribe(ALL, user="u") as live:
        assert told(live.poll()) == [("initial", 1)]
        assert live.poll() == []
        table.write(notes({3: "c"}), user="u")
        lake.flush()
        with lake.subscribe(ALL, user="u", from_seq=live.seq) as again:
            assert told(live.poll()) == told(again.poll()) == [("insert", 3)]


@pytest.mark.slow
def test_an_erasure_ends_it_and_leaves_nothing_that_was_kept(lake: Lakehouse, table: TableClient) -> None:
    seqs = {user: table.write(notes({1: user}), user=user).last_seq for user in ("ada", "bob")}
    lake.flush()
    table.write(notes({2: "hot"}), user="ada")
    table.write(notes({2: "hot"}), user="bob")
    with lake.subscribe(ALL, user="ada") as ada, lake.subscribe(ALL, user="bob") as bob:
        ada.poll(), bob.poll()
        mark, state, log_id = lake.warehouse.erasures.mark("ada"), lake.warehouse.state, table.table.log_id
        close_user(state, log_id, mark)
        with pytest.raises(BeingErased):
            ada.poll()
        open_user(state, log_id, mark)
        assert lake.erase("ada").result == "complete"
        assert [each.user for each in lake.live_queries()] == ["bob"]
        with pytest.raises(Ended, match="erased"):
            ada.poll()
        assert bob.poll() == []
    trail = read_trail(state, log_id, -1, HeaderCache())
    assert (trail.ranges("ada", -1), sum(each.rows for each in trail.ranges("bob", -1))) == ((), 2)
    with lake.subscribe(ALL, user="bob", from_seq=seqs["bob"]) as bob:
        assert told(bob.poll()) == [("insert", 2)]
    with pytest.raises(InvalidArgument, match="erased; the oldest that works"):
        lake.subscribe(ALL, user="ada", from_seq=seqs["ada"])
    with lake.subscribe(ALL, user="ada") as ada:
        assert ada.poll() == []
        table.write(notes({3: "new"}), user="ada")
        lake.flush()
        with lake.subscribe(ALL, user="ada", from_seq=ada.seq) as again:
            assert told(ada.poll()) == told(again.poll()) == [("insert", 3)]


def test_kept_rows_of_the_erased_are_found_by_the_verifier(lake: Lakehouse, table: TableClient) -> None:
    table.write(notes({1: "a"}), user="ada")
    lake.flush()
    found = {finding.uri.split("/")[-2] for finding in lake.verify_erased("ada").findings}
    assert "history" in found
    with lake.subscribe(ALL, user="ada"):
        assert "a subscription of the user" in {finding.what for finding in lake.verify_erased("ada").findings}


def test_a_drop_ends_it(lake: Lakehouse, table: TableClient) -> None:
    table.write(notes({1: "a"}), user="u")
    lake.flush()
    with lake.subscribe(ALL, user="u") as live, lake.subscribe(ALL, user="u") as late:
        live.poll(), late.poll()
        lake.drop_table(NOTES)
        with pytest.raises(NotFound, match=r"chat\.notes"):
            live.poll()
        make_notes(lake)
        with pytest.raises(NotFound, match="another of the same name"):
            late.poll()
        with pytest.raises(NotFound):
            late.poll()


def test_columns_are_those_of_the_table_at_the_moment(lake: Lakehouse, table: TableClient) -> None:
    table.write(notes({1: "a"}), user="u")
    with lake.subscribe(ALL, user="u") as live, lake.subscribe(f"SELECT text FROM {NOTES}", user="u") as named:
        live.poll(), named.poll()
        lake.alter_table(NOTES, AddColumn(Column("more", "INT")))
        lake.table(NOTES).write([{"id": 1, "text": "b", "more": 7}], user="u")
        assert [(each.kind, dict(each.row)) for each in live.poll()] == [("update", {"id": 1, "text": "b", "more": 7})]
        assert [dict(each.row) for each in named.poll()] == [{"text": "b"}]
        lake.alter_table(NOTES, RenameColumn("id", "number"))
        lake.alter_table(NOTES, DropColumn("text"))
        lake.flush()
        lake.table(NOTES).delete([{"number": 1}], user="u")
        assert [(each.kind, dict(each.row)) for each in live.poll()] == [("delete", {"number": 1})]
        with pytest.raises(InvalidArgument, match="text"):
            named.poll()


def test_rights_are_asked_at_every_look(lake: Lakehouse) -> None:
    board = shared(lake, {"ACCESS_LEVEL": "PUBLIC"})
    reader = lake.session(user="eve", role="user")
    with reader.subscribe("SELECT * FROM chat.board") as live:
        board.write(notes({1: "a"}))
        assert told(live.poll()) == [("insert", 1)]
        lake.alter_table("chat.board", SetOptions({"ACCESS_LEVEL": "PRIVATE"}))
        board.write(notes({2: "secret"}))
        with pytest.raises(PermissionDenied):
            live.poll()
    for text in ("SELECT * FROM chat.board", "SUBSCRIBE TO chat.board", "SELECT * FROM system.users"):
        with pytest.raises(PermissionDenied):
            reader.subscribe(text)
    lake.alter_table("chat.board", SetOptions({"ACCESS_LEVEL": "PUBLIC"}))
    with pytest.raises(Unsupported, match="EXECUTE AS USER"):
        lake.subscribe("EXECUTE AS USER 'eve' (SUBSCRIBE TO chat.board)")
    lake.create_view("chat.seen", "SELECT * FROM chat.board")
    with pytest.raises(Unsupported, match="view"):
        lake.subscribe("SELECT * FROM chat.seen")
    assert [entry["action"] for entry in lake.sql("SELECT action FROM system.audit_log")[0].to_pylist()].count("DENIED") >= 4  # type: ignore[union-attr]


@pytest.mark.usefixtures("table")
def test_a_killed_one_ends_wherever_it_is(lake: Lakehouse, clock: Clock) -> None:
    with (
        lake.subscribe(f"{ALL} WHERE id > 3", user="u", from_seq=-1) as live,
        Lakehouse.open(lake.warehouse.uri, clock=clock) as other,
    ):
        (row,) = other.sql("SELECT * FROM system.live")[0].to_pylist()  # type: ignore[union-attr]
        assert (row["live_id"], row["table_name"], row["user_id"], row["status"]) == (live.id, "notes", "u", "active")
        assert "id > 3" in str(row["query"])
        live.poll()
        other.sql(f"KILL LIVE QUERY '{live.id}'")
        with pytest.raises(Ended, match="killed"):
            live.poll()
        assert other.live_queries() == []
    lost = lake.subscribe(ALL, user="u")
    clock.forward(60)
    lost.poll()
    clock.forward(100)
    assert [each.live_id for each in lake.live_queries()] == [lost.id]
    clock.forward(30)
    assert lake.live_queries() == []
    lost.poll()
    assert [each.live_id for each in lake.live_queries()] == [lost.id], "who was only slow is there again"
    lost.close()


def test_stream_rows_are_told_until_they_expire(lake: Lakehouse, clock: Clock) -> None:
    lake.create_namespace("chat")
    columns = [Column("id", "BIGINT"), Column("what", "TEXT")]
    stream = lake.create_table("chat.typing", type="STREAM", columns=columns, options={"TTL_SECONDS": "30"})
    query = "SELECT id FROM chat.typing WHERE id < 10"
    first = stream.write([{"id": 1, "what": "a"}], user="u").last_seq
    clock.forward(20)
    with lake.subscribe(query, user="u") as live, lake.subscribe(query, user="u") as slow:
        assert told(live.poll()) == told(slow.poll()) == [("initial", 1)]
        second = stream.write([{"id": 2, "what": "a"}, {"id": 11, "what": "a"}, {"id": 2, "what": "b"}], user="u").last_seq
        assert told(live.poll()) == [("insert", 2), ("insert", 2)]
        stream.delete_rows([second], user="u")
        assert [(each.kind, dict(each.row)) for each in live.poll()] == [("delete", {"_seq": second})]
        clock.forward(31)
        third = stream.write([{"id": 3, "what": "c"}], user="u").last_seq
        lake.evict()
        assert told(live.poll()) == told(slow.poll()) == [("insert", 3)]
    with lake.subscribe(query, user="u", from_seq=first) as again:
        assert [each.seq for each in again.poll()] == [third], "the time of what came between is over"


def test_a_delete_of_a_row_that_is_not_shown_is_no_event(lake: Lakehouse, table: TableClient) -> None:
    with lake.subscribe(f"{ALL} WHERE text IS NOT NULL AND user() = 'u'".replace("user()", "CURRENT_USER"), user="u") as live:
        table.delete([{"id": 1}], user="u")
        table.write([{"id": 1, "text": None}], user="u")
        assert live.poll() == []
        table.write(notes({1: "a"}), user="u")
        table.write([{"id": 1, "text": None}], user="u")
        assert told(live.poll()) == [("insert", 1), ("delete", 1)]


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("SELECT count(*) FROM chat.notes", InvalidArgument),
        ("SELECT * FROM chat.notes JOIN chat.notes AS n ON true", InvalidArgument),
        ("SELECT * FROM chat.notes, chat.notes AS n", InvalidArgument),
        ("WITH n AS (SELECT 1) SELECT * FROM chat.notes", InvalidArgument),
        ("SELECT DISTINCT text FROM chat.notes", InvalidArgument),
        ("SELECT * FROM chat.notes LIMIT 3", InvalidArgument),
        ("SELECT row_number() OVER () FROM chat.notes", InvalidArgument),
        ("SELECT * FROM chat.notes WHERE id IN (SELECT 1)", InvalidArgument),
        ("SELECT * FROM chat.notes UNION ALL SELECT * FROM chat.notes", InvalidArgument),
        ("SELECT * FROM (SELECT * FROM chat.notes)", InvalidArgument),
        ("SELECT * FROM chat.notes TABLESAMPLE 10%", InvalidArgument),
        ("FLUSH chat.notes", LakewardenError),
        ("DELETE FROM chat.notes WHERE id = 1", InvalidArgument),
        ("SELECT 1; SELECT 2", InvalidArgument),
        ("", InvalidArgument),
    ],
)
@pytest.mark.usefixtures("table")
def test_what_is_no_subscription_is_refused(lake: Lakehouse, text: str, error: type[LakewardenError]) -> None:
    with pytest.raises(error):
        lake.subscribe(text, user="u")
    assert lake.live_queries() == []


def test_a_version_that_a_vacuum_took_is_too_old(warehouse_uri: str) -> None:
    seqs = []
    with Lakehouse.open(warehouse_uri) as lake:
        table = make_notes(lake)
        for text in ("a", "b"):
            seqs.append(table.write(notes({1: text}), user="u").last_seq)
            lake.flush()
        lake.vacuum(NOTES, retain_hours=0, force=True, dry_run=False)
        with pytest.raises(InvalidArgument, match="version 0, the newest at that time, can no longer be read"):
            lake.subscribe(ALL, user="u", from_seq=seqs[0])
        with lake.subscribe(ALL, user="u", from_seq=seqs[1]) as live:
            assert live.poll() == []


@pytest.mark.disk
def test_a_move_is_not_noticed(lake: Lakehouse, table: TableClient, tmp_path: Path) -> None:
    seq = table.write(notes({1: "a"}), user="u").last_seq
    lake.flush()
    with lake.subscribe(ALL, user="u") as live:
        table.write(notes({1: "b"}), user="u")
        lake.create_storage("other", type="filesystem", base=str(tmp_path / "other"))
        lake.move(NOTES, "other")
        table.write(notes({2: "c"}), user="u")
        lake.flush()
        assert told(live.poll()) == [("initial", 1), ("update", 1), ("insert", 2)]
        with lake.subscribe(ALL, user="u", from_seq=seq) as again:
            assert told(again.poll()) == [("update", 1), ("insert", 2)]


@pytest.mark.slow
@pytest.mark.disk
def test_a_store_that_fails_at_any_call_loses_nothing(warehouse_uri: str) -> None:
    with Lakehouse.open(warehouse_uri) as plain:
        store = Store(Path(plain.warehouse.state.uri))
        catalog = CatalogStore(store, plain.warehouse.clock)
        watched = replace(plain.warehouse, state=store, catalog=catalog, logs=Logs(store))
        lake = Lakehouse(watched)
        table = make_notes(plain)
        live = lake.subscribe(ALL, user="u", batch_size=1)
        failed = 0
        for number in range(20):
            table.write(notes({0: "a", number + 1: "b"}), user="u")
            plain.flush() if number % 3 == 0 else None
            left = [number]

            def fails(_call: str, key: str, left: list[int] = left) -> None:
                left[0] -= 1
                if left[0] == -1:
                    raise StorageUnavailable(key)

            store.before = fails
            try:
                events = live.poll()
            except StorageUnavailable:
                failed += 1
                events = live.poll()
            store.before = lambda _call, _key: None
            assert told(events) == [("update" if number else "insert", 0), ("insert", number + 1)]
        live.close()
        assert failed > 5


def test_rows_that_a_flush_brings_while_it_begins_come_once(lake: Lakehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    table = make_notes(lake)
    table.write(notes({1: "a"}), user="u")
    look = "lakewarden.tables.strong_read.open_scope"

    def after_a_flush(target: ScopeTarget) -> ScopeTable | None:
        monkeypatch.setattr(look, open_scope)
        table.write(notes({2: "b"}), user="u")
        lake.flush(NOTES)
        return open_scope(target)

    monkeypatch.setattr(look, after_a_flush)
    with lake.subscribe(f"SELECT id FROM {NOTES}", user="u", role="user") as changes:
        assert [event.row for event in changes.poll()] == [{"id": 1}, {"id": 2}]
        assert changes.poll() == []


@pytest.mark.slow
@pytest.mark.parametrize("poll_bytes", [1, 500, 100_000])
def test_a_poll_of_few_bytes_goes_on_where_the_last_one_ended(lake: Lakehouse, poll_bytes: int) -> None:
    table = make_notes(lake)
    session = lake.session(user="u", role="user")
    with session.followed(f"SELECT id FROM {NOTES} WHERE id > 9", Manner(poll_bytes=poll_bytes)) as changes:
        for first in range(0, 40, 20):
            table.write(notes(dict.fromkeys(range(first, first + 20), "x" * 20)), user="u")
            lake.flush(NOTES)
        table.write(notes(dict.fromkeys(range(40, 45), "y")), user="u")
        polls: list[list[object]] = []
        while polls[-1:] != [[]]:
            polls.append([event.row["id"] for event in changes.poll()])
    assert [number for poll in polls for number in poll] == [*range(10, 45)]
    assert len(polls) == {1: 36, 100_000: 2}.get(poll_bytes, len(polls))
