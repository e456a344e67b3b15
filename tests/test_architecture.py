"""docs/architecture.md names the rooms in the order in which they import, and the directories that a warehouse has."""

from __future__ import annotations

import ast
import inspect
import re
import tomllib
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import get_args

import pytest

from lakewarden import Column, Lakehouse
from lakewarden.catalog.operations import PLANNABLE, QUEUEABLE, SPECS, Operation, Plannable, Queueable
from lakewarden.maintenance.options import option_names
from lakewarden.maintenance.procedure import AsAWhole, ByScope, procedure_of

_ROOT = Path(__file__).parent.parent
_PAGE = (_ROOT / "docs" / "architecture.md").read_text()


def _layers() -> list[list[str]]:
    """Of the contract, from the bottom up."""
    contracts = tomllib.loads((_ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (rooms,) = (contract for contract in contracts if contract.get("containers") == ["lakewarden"])
    return [re.findall(r"\w+", layer) for layer in reversed(rooms["layers"])]


def test_what_rooms_and_the_page_name_is_there() -> None:
    """Modules and directories move; who has never been here follows these words."""
    package, place = _ROOT / "lakewarden", re.compile(r"`((?:[a-z]\w*/)+|(?:[a-z]\w*/)*\w+\.py)`")
    rows = re.findall(r"^\| `(\w+)/` \| (.*) \|$", _PAGE.partition("| room |")[2].partition("\n\n")[0], re.MULTILINE)
    said = [(package / room, text) for room, text in rows]
    said += [(init.parent, ast.get_docstring(ast.parse(init.read_text())) or "") for init in package.rglob("__init__.py")]
    named = [(room, name) for room, text in said for name in place.findall(text)]
    assert len(named) > 60
    assert [(room.name, name) for room, name in named if not ((room / name).exists() or (package / name).exists())] == []


def test_a_room_stands_below_all_that_it_may_import() -> None:
    rows = re.findall(r"^\| ((?:`\w+/?` ?)+)\|", _PAGE.partition("| room |")[2], re.MULTILINE)
    place = {room: number for number, row in enumerate(rows) for room in re.findall(r"\w+", row)}
    layers = _layers()
    assert place.keys() == {room for layer in layers for room in layer}
    for below, above in pairwise(layers):
        assert max(place[room] for room in below) <= min(place[room] for room in above), (below, above)


@pytest.mark.disk
def test_every_directory_of_a_warehouse_is_named(warehouse_uri: str) -> None:
    with Lakehouse.open(warehouse_uri) as lake:
        lake.create_namespace("app")
        table = lake.create_table("app.t", type="USER", columns=[Column("id", "BIGINT"), Column("f", "FILE")], primary_key=["id"])
        table.put_file({"id": 1}, "f", b"x", name="x", user="u")
        lake.flush()
        lake.tag("app.t", "first", user="u")
        table.lease(user="u", seconds=60)
        lake.session(user="u", role="user").subscribe("SELECT id FROM app.t").poll()
        lake.sql("EXPORT USER DATA; STORAGE FLUSH TABLE app.t", user="u", role="dba")
        table.write([{"id": 2}], user="v")
        lake.flush()
        lake.erase("v")
    state = _PAGE.partition("  _lakewarden/  ")[2].partition("\n  data/")[0]
    named = set(re.findall(r"[\w.-]+", " ".join(line[:36] for line in state.splitlines())))
    there = {entry.name.partition("<")[0] for entry in (Path(warehouse_uri) / "_lakewarden").iterdir()}
    assert len(there) > 12
    assert there <= named, there - named


def test_an_operation_has_its_row_its_types_and_its_job() -> None:
    """What "Add an operation" lists; `drop` and `import` have no Dagster job of their own."""
    assert set(get_args(Operation)) == set(SPECS)
    assert get_args(Queueable) == QUEUEABLE
    assert get_args(Plannable) == PLANNABLE
    assert {name for name in SPECS if _procedure(name) is None} == {"import", "ingest", "write"}
    jobs = {path.stem for path in (_ROOT / "lakewarden" / "dagster" / "jobs").glob("*.py")}
    assert set(SPECS) - jobs == {"drop", "import", "write"}


def _procedure(operation: Operation) -> ByScope | AsAWhole | None:
    try:
        return procedure_of(operation)
    except ModuleNotFoundError:
        return None


_NAMED_BY = {
    "catalog/access": "its right",
    "dagster/jobs/evict": "its Dagster file",
    "dagster/jobs/materialize": "of a STREAM table it is what *Materialize* does",
    "dagster/orchestration/schedules": "when it runs",
    "client/maintenance": "its method of the Python client",
    "maintenance/evict": "itself",
    "catalog/operations": "the table",
}


def test_no_module_chooses_by_an_operations_name() -> None:
    """Of one operation that is not part of another, all that name it; the others follow from its row."""
    package = _ROOT / "lakewarden"
    naming = {
        str(path.relative_to(package).with_suffix(""))
        for path in package.rglob("*.py")
        if '"evict"' in path.read_text()
        and any(isinstance(node, ast.Constant) and node.value == "evict" for node in ast.walk(ast.parse(path.read_text())))
    }
    assert naming == _NAMED_BY.keys()


@pytest.mark.parametrize("operation", [name for name in SPECS if hasattr(Lakehouse, name)])
def test_a_method_of_an_operation_takes_the_options_of_its_row(operation: Operation) -> None:
    """The signatures stand in the code, for type checkers; the row says what they have to be."""
    spec = SPECS[operation]
    taken = set(inspect.signature(getattr(Lakehouse, operation)).parameters) - {"self", "dry_run"}
    assert ("metadata" in taken) == (operation not in ("erase", "evict", "export")), "of those that commit and stay"
    taken -= {"metadata"}
    tables = {"any": {"tables"}, "one": {"table"}, "none": set()}[spec.tables]
    more = {"erase": {"asked_by"}, "repair": {"table"}, "ingest": {"objects", "force", "limit", "job_id", "resume"}}.get(
        operation, set()
    )
    less = {"repair": {"tables"}}.get(operation, set())
    assert taken == (option_names(operation) | tables | more) - less


_SYSTEM = {"system_clock", "random_id"}
_OUTERMOST = {
    "lakewarden.cli.ui": "a session of processes has an id of its own, before a warehouse is open",
    "lakewarden.dagster.definitions": "a code location opens its warehouse",
    "lakewarden.dagster.lakehouse": "a run opens its warehouse",
    "lakewarden.tables.rows.defaults": "the numbers of a process begin once, for all of its warehouses",
    "lakewarden.spark.connection": "a reader or writer in Spark opens its warehouse",
    "lakewarden.sql.session_block": "a statement outside of any session has a block that refuses all",
    "lakewarden.catalog.locks": "another process opens the catalog from the place that it was sent",
}
_TASKS = {
    "lakewarden.tables.direct.revise",
    "lakewarden.tables.direct.outputs",
    "lakewarden.maintenance.flush.run",
    "lakewarden.maintenance.maintain",
    "lakewarden.maintenance.optimize.zorder",
    "lakewarden.ingest.pipelines.in_tasks",
    "lakewarden.maintenance.repair.scope",
    "lakewarden.spark.large",
    "lakewarden.sql.writing.copying",
}
"""Their work may run in other processes, to which a caller's own `new_id` cannot be sent."""


@pytest.mark.slow
def test_time_and_randomness_are_parameters() -> None:
    """Defaults of parameters and fields may name the system's; else whoever opens a warehouse passes them on."""
    called, passed = set[str](), set[str]()
    for path in (_ROOT / "lakewarden").rglob("*.py"):
        module, text = ".".join(path.relative_to(_ROOT).with_suffix("").parts), path.read_text()
        tree = ast.parse(text if any(name in text for name in _SYSTEM) else "")
        defaults = {id(default) for node in ast.walk(tree) for default in _defaults(node)}
        calls = [node.func for node in ast.walk(tree) if isinstance(node, ast.Call)]
        called |= {module for func in calls if isinstance(func, ast.Name) and func.id in _SYSTEM}
        names = [node for node in ast.walk(tree) if isinstance(node, ast.Name) and node.id in _SYSTEM]
        passed |= {module for name in names if id(name) not in defaults}
    assert called == {"lakewarden.base.clock", "lakewarden.cli.ui"}, "take a Clock or a NewId as a parameter"
    assert passed - {"lakewarden.base.clock"} == _OUTERMOST.keys() | _TASKS, "pass on the warehouse's own"


def _defaults(node: ast.AST) -> Iterator[ast.expr | None]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
        yield from (*node.args.defaults, *node.args.kw_defaults)
    if isinstance(node, ast.ClassDef):
        yield from (each.value for each in node.body if isinstance(each, ast.AnnAssign))
