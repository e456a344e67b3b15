"""A bucket away, all else works: under each command, operation, kind of statement and listing, however it went away."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import pytest

from lakewarden.cli.main import main
from lakewarden.client import Lakehouse
from lakewarden.storage import remote
from lakewarden.storage.clients import Outages
from tests.fixtures.minio import MinioServer
from tests.fixtures.patience import PATIENCE
from tests.fixtures.stores_away import USERS, WAYS, Far, far_storage, gone

pytestmark = [pytest.mark.disk, pytest.mark.slow, pytest.mark.xdist_group("stores_away")]

_ALL = "n.near n.far n.snear n.sfar"

WORKS = (
    "status",
    "status --all",
    "tables",
    "users",
    "plan n.near",
    "plan --operation flush",
    "plan n.near --operation restore --version 0 --user ada",
    "flush n.near",
    "optimize n.near n.snear",
    "vacuum n.near",
    "evict n.events",
    "restore n.near --user ada --version 0",
    "history n.near --user ada",
    "tag n.near --user ada --name good",
    "storage list",
    "storage alter far --description cold",
    "settings",
    "jobs list",
    "check local",
    "load n.near {rows} --user ada",
    "load n.far {rows} --user ada",
    "load n.snear {rows}",
)
"""What needs nothing of the storage."""

DOES_THE_REST = (
    "plan",
    "plan --all",
    "plan --operation compact",
    "plan --operation optimize",
    "plan --operation vacuum",
    f"flush {_ALL}",
    f"compact {_ALL}",
    f"compact {_ALL} --look",
    f"optimize {_ALL}",
    f"optimize {_ALL} --look",
    f"vacuum {_ALL}",
    f"vacuum {_ALL} --look --dry-run",
    "apply {plan}",
    "check",
    "check --quick",
    "check --extended",
    "repair",
    "repair --dry-run",
    "repair n.near",
)
"""What fails for the storage alone, in lines that name it, and ends with status 1."""

IS_REFUSED = (
    "flush n.far",
    "restore n.far --user ada --version 0",
    "restore n.far --user ada --version 0 --dry-run",
    "history n.far --user ada",
    "tag n.far --user ada --name good",
    "storage adopt far",
    "export --user ada --to {out}",
    "erase --user ada",
    "erase --user ada --dry-run",
    "erase --user ada --table n.near",
    "repair n.far",
    "repair --restored",
    "move n.near --to far",
    "move n.near --to far --dry-run",
    "move n.far --to local",
    "move n.far --to local --dry-run",
    "load n.sfar {rows}",
    "upgrade",
)
"""What needs the storage. Nothing is deleted."""

STATEMENTS_THAT_WORK = (
    "SELECT * FROM n.near",
    "SELECT * FROM n.snear",
    "SELECT * FROM n.vnear",
    "SELECT * FROM n.events",
    *(f"SELECT * FROM system.{name}" for name in ("tables", "storages", "jobs", "users", "schemas", "columns", "manifest")),
    *(f"SELECT * FROM system.{name}" for name in ("namespaces", "stats", "audit_log", "settings", "live", "sessions")),
    "SHOW NAMESPACES",
    "SHOW TABLES",
    "SHOW STORAGES",
    "SHOW MANIFEST",
    "SHOW SETTINGS",
    "SHOW STATS FOR TABLE n.near",
    "DESCRIBE n.far",
    "DESCRIBE HISTORY n.snear",
    "STORAGE CHECK far",
    "STORAGE CHECK local",
    "STORAGE FLUSH TABLE n.near",
    "INSERT INTO n.near VALUES (70, 'a')",
    "INSERT INTO n.snear VALUES (70, 'a')",
    "UPDATE n.snear SET s = 'q' WHERE id = 1",
    "DELETE FROM n.snear WHERE id = 1",
    "ALTER TABLE n.far ADD COLUMN z TEXT",
    "CREATE USER TABLE n.new (id BIGINT PRIMARY KEY)",
    "DROP TABLE n.near",
    "DROP VIEW n.vfar",
    "OPTIMIZE n.snear",
    "VACUUM n.snear",
    "VACUUM n.near FOR ALL USERS DRY RUN",
    "BEGIN; INSERT INTO n.snear VALUES (90, 'a'); COMMIT",
)

STATEMENTS_THAT_ARE_REFUSED = (
    "SELECT * FROM n.far",
    "SELECT * FROM n.sfar",
    "SELECT * FROM n.vfar",
    "SELECT * FROM n.snear JOIN n.sfar USING (id)",
    "SHOW STATS FOR TABLE n.far",
    "DESCRIBE HISTORY n.sfar",
    "STORAGE FLUSH TABLE n.far",
    "STORAGE FLUSH ALL IN n",
    "STORAGE COMPACT ALL IN n",
    "INSERT INTO n.far VALUES (70, 'a')",
    "INSERT INTO n.sfar VALUES (70, 'a')",
    "UPDATE n.sfar SET s = 'q' WHERE id = 1",
    "DELETE FROM n.sfar WHERE id = 1",
    "DROP TABLE n.far",
    "DROP NAMESPACE n CASCADE",
    "OPTIMIZE n.sfar",
    "VACUUM n.sfar",
    "RESTORE TABLE n.sfar TO VERSION AS OF 0",
    "EXPORT USER DATA",
    "BEGIN; INSERT INTO n.sfar VALUES (90, 'a'); COMMIT",
)

_SAMPLE = frozenset({"status --all", "plan", f"flush {_ALL}", f"vacuum {_ALL} --look --dry-run", "check", "check --extended"})
_SAMPLE |= {"repair", "erase --user ada", "export --user ada --to {out}", "move n.near --to far", "load n.sfar {rows}"}
_SAMPLE |= {"SELECT * FROM n.near", "SELECT * FROM n.sfar", "SELECT * FROM system.manifest", "SHOW MANIFEST"}
_SAMPLE |= {"DROP NAMESPACE n CASCADE", "STORAGE FLUSH ALL IN n", "STORAGE CHECK far", "storage adopt far", "flush n.far"}
"""Of which every way is tried; of the others, the first."""


def each(several: Sequence[str]) -> pytest.MarkDecorator:
    """Parametrizes a test with the ways of the storage, and what is tried."""
    pairs = [(way, what) for way in WAYS for what in several if way == WAYS[0] or what in _SAMPLE]
    return pytest.mark.parametrize(("way", "what"), pairs)


@pytest.fixture(scope="module")
def ways(minio: MinioServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, Far]]:
    """A warehouse for each way, made when it is first needed."""
    with ExitStack() as stack:
        environment = stack.enter_context(pytest.MonkeyPatch.context())

        def made(way: str) -> Far:
            root = tmp_path_factory.mktemp(f"away-{way}") / "lake"
            far = stack.enter_context(far_storage(minio, root, environment))
            (root.parent / "rows.csv").write_text("id,s\n50,a\n")
            stack.enter_context(gone(far, way, minio, environment))
            return far

        yield Made(made)


class Made(dict[str, Far]):
    def __init__(self, make: Callable[[str], Far]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, way: str) -> Far:
        self[way] = made = self._make(way)
        return made


@dataclass
class Printed:
    """What a command came to."""

    status: int
    lines: list[dict[str, object]] = field(default_factory=list)
    said: str = ""

    @property
    def error(self) -> dict[str, object]:
        found = self.lines[-1]["error"]
        assert isinstance(found, dict)
        return found

    @property
    def failed(self) -> list[dict[str, object]]:
        """The lines that say that something failed."""
        lines = self.lines[:-1] if self.status else self.lines
        return [line for line in lines if line.get("outcome") == "failed" or line.get("passed") is False or line.get("error")]


@dataclass
class Shell:
    """The command line over a copy of the warehouse."""

    far: Far
    place: Path
    capsys: pytest.CaptureFixture[str]
    uri: str = ""

    def run(self, *arguments: str) -> Printed:
        self.capsys.readouterr()
        status = 0
        try:
            main(["--warehouse", self.uri, "--format", "json", *arguments])
        except SystemExit as left:
            status = int(left.code or 0)
        printed = self.capsys.readouterr()
        found = [json.loads(line) for line in printed.out.splitlines()]
        return Printed(status, [row for each in found for row in (each if isinstance(each, list) else [each])], printed.err)

    def command(self, words: str) -> Printed:
        rows, out = self.far.root.parent / "rows.csv", self.place / "out"
        plan = self.run("plan", "--operation", "flush").lines[0]["plan_id"] if "{plan}" in words else ""
        return self.run(*words.format(rows=rows, out=out, plan=plan).split())

    def sql(self, statements: str) -> Printed:
        return self.run("sql", statements, "--user", "ada", "--role", "dba")

    def data(self) -> set[str]:
        """Every file of the near tables."""
        root = Path(self.uri) / "data"
        return {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}


@pytest.fixture
def shell(ways: Mapping[str, Far], way: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Shell:
    return Shell(ways[way], tmp_path, capsys, ways[way].copy(tmp_path / "lake"))


def check_named(printed: Printed) -> None:
    """The command failed for the storage, and says so."""
    assert printed.status == 1
    assert printed.error["code"] == "STORAGE_UNAVAILABLE"
    assert "far" in str(printed.error["message"]).replace("n.far", "").replace("/far", ""), "the storage is named"
    assert "Traceback" not in printed.said


@each(WORKS)
def test_what_does_not_need_it_works(shell: Shell, what: str) -> None:
    printed = shell.command(what)
    assert (printed.status, printed.said) == (0, "")
    assert not [line for line in printed.failed if line.get("table") not in ("n.far", "n.sfar")]


@each(DOES_THE_REST)
def test_what_concerns_more_than_it_does_the_rest(shell: Shell, what: str) -> None:
    printed = shell.command(what)
    check_named(printed)
    assert printed.failed
    for line in printed.failed:
        assert "far" in str(line.get("subject") if "passed" in line else line.get("reason") or line.get("error"))
        if line.get("subject") != "storage":
            assert line.get("table") in (None, "n.far", "n.sfar"), line
    near = {line["table"] for line in printed.lines[:-1] if line not in printed.failed and "table" in line}
    if "check" not in what and what not in ("plan --operation compact", "plan --operation vacuum"):
        assert "n.near" in near, "the rest is done"
    if what in (f"flush {_ALL}", "apply {plan}"):
        with Lakehouse.open(shell.uri) as lake:
            assert {str(one.table) for one in lake.pending()} == {"n.far", "n.sfar"}
    if what in ("check", "check --quick"):
        assert [line["subject"] for line in printed.failed] == ["storage far"], "one line"


@each(IS_REFUSED)
def test_what_needs_it_fails_and_deletes_nothing(shell: Shell, what: str) -> None:
    before = shell.data()
    check_named(shell.command(what))
    assert before <= shell.data()
    with Lakehouse.open(shell.uri) as lake:
        assert lake.privacy.certificates() == []
        assert [lake.table("n.near").read(user=user).num_rows for user in USERS] == [3, 3]
        assert lake.table("n.near").table.options.storage_id == "local"
    assert not (shell.place / "out").exists() or not list((shell.place / "out").rglob("*.parquet"))


@each(STATEMENTS_THAT_WORK)
def test_a_statement_that_does_not_need_it_works(shell: Shell, what: str) -> None:
    printed = shell.sql(what)
    assert (printed.status, printed.said) == (0, "")
    rows: Any = printed.lines[-1].get("rows")
    if what == "SELECT * FROM system.manifest":
        states = {(row["table_name"], row["scope"]): row["sync_state"] for row in rows}
        near, far = {("near", user): "pending_write" for user in USERS}, {("far", user): "error" for user in USERS}
        assert states == near | far | {("snear", "shared"): "pending_write", ("sfar", "shared"): "error"}
    if what == "SHOW MANIFEST":
        shown = {row["table_name"]: row["row_count"] for row in rows}
        assert shown == {"near": 2, "far": 2, "snear": 2, "sfar": 2}, "as the state knows them"
    if what == "STORAGE CHECK far":
        (row,) = rows
        assert (row["status"], row["readable"]) == ("unreachable", False)


@each(STATEMENTS_THAT_ARE_REFUSED)
def test_a_statement_that_needs_it_fails_and_changes_nothing_else(shell: Shell, what: str) -> None:
    before = shell.data()
    check_named(shell.sql(what))
    assert before <= shell.data()
    with Lakehouse.open(shell.uri) as lake:
        assert [str(table.name) for table in lake.tables()] == ["n.near", "n.far", "n.snear", "n.sfar", "n.events"]
        assert set(lake.table("n.snear").read()["id"].to_pylist()) == {0, 1, 2}
        if what == "STORAGE FLUSH ALL IN n":
            assert {str(one.table) for one in lake.pending()} == {"n.far", "n.sfar"}, "the others were flushed"


def test_uploads_and_imports_go_on_elsewhere(
    minio: MinioServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """An import writes into the log, which is not there; an upload becomes a commit at once, which is."""
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "a.csv").write_text("id,s\n1,a\n")
    source = f"SOURCE = '{tmp_path / 'source'}'"
    with far_storage(minio, tmp_path / "uploads-away" / "lake", monkeypatch) as far:
        with Lakehouse.open(str(far.root)) as lake:
            lake.sql(f"CREATE SHARED TABLE n.unear FROM TEMPLATE csv WITH ({source})")
            lake.sql(f"CREATE SHARED TABLE n.ufar FROM TEMPLATE csv WITH ({source}, STORAGE_ID = 'far')")
            lake.export("ada", str(tmp_path / "exported"))
        shell = Shell(far, tmp_path, capsys, str(far.root))
        with gone(far, "refused", minio, monkeypatch):
            taken = shell.command("ingest n.unear")
            assert (taken.status, taken.lines[0]["rows"]) == (0, 1)
            check_named(shell.command("ingest n.ufar"))
            imported = shell.command(f"import --from {tmp_path / 'exported'} --user eve")
            assert [(one["table"], one["rows"]) for one in imported.lines] == [("n.near", 3), ("n.far", 3)]
            assert shell.sql("SELECT * FROM n.unear").status == 0
        # who waited in vain for a store keeps others from asking for some seconds more
        end = monotonic() + PATIENCE
        while (back := shell.command("ingest n.ufar")).status and monotonic() < end:
            sleep(1)
        assert back.lines[0]["rows"] == 1, "it is taken when the storage is there again"


def test_many_scopes_wait_for_it_once(
    minio: MinioServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(remote, "OUTAGES", Outages())
    with far_storage(minio, tmp_path / "lake", monkeypatch) as far:
        with Lakehouse.open(str(far.root)) as lake:
            lake.table("n.far").write([{"id": 9, "s": "x", "user": f"u{one}"} for one in range(60)], user_column="user")
            lake.flush("n.far")
            lake.table("n.far").write([{"id": 10, "s": "x", "user": f"u{one}"} for one in range(60)], user_column="user")
        shell = Shell(far, tmp_path, capsys, str(far.root))
        with far.line.cut("silent"):
            for command in (f"flush {_ALL}", f"compact {_ALL} --look", f"vacuum {_ALL} --look --dry-run", "check", "plan"):
                check_named(shell.command(command))
            assert shell.command("status").status == 0
            assert shell.sql("SHOW MANIFEST").status == 0
        assert far.line.connections < 30, "not one for each of 62 scopes and seven commands"
