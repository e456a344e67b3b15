"""`Lakehouse` keeps a name for each method of its nouns, and nothing else."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable, Iterator
from operator import attrgetter
from pathlib import Path
from types import FunctionType

import pytest

from lakewarden import Lakehouse
from lakewarden.client.jobs import Jobs
from tests.fixtures.lakes import make_notes, notes

_NOUNS = {"catalog", "k3", "maintenance", "jobs", "loads", "pipelines", "privacy", "subscriptions", "sessions", "topics"}
_OWN = {"open", "close", "noted"}
_DELEGATES = sorted(
    name for name, _ in inspect.getmembers(Lakehouse, inspect.isfunction) if not name.startswith("_") and name not in _OWN
)


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lakehouse]:
    with Lakehouse.open(str(tmp_path / "lake")) as opened:
        yield opened


def _body(function: FunctionType) -> list[ast.stmt]:
    (definition,) = ast.parse(textwrap.dedent(inspect.getsource(function))).body
    assert isinstance(definition, ast.FunctionDef)
    return definition.body


def _call(name: str) -> ast.Call:
    """What a delegate does after its docstring."""
    docstring, statement = _body(getattr(Lakehouse, name))
    assert isinstance(docstring, ast.Expr)
    assert isinstance(docstring.value, ast.Constant)
    assert isinstance(statement, ast.Return | ast.Expr)
    assert isinstance(statement.value, ast.Call)
    return statement.value


def test_every_public_name_is_a_noun_or_a_delegate() -> None:
    public = {name for name in dir(Lakehouse) if not name.startswith("_")}
    assert public - set(_DELEGATES) == _NOUNS | _OWN | {"feeds"}


@pytest.mark.parametrize("name", _DELEGATES)
def test_a_delegate_calls_the_method_of_a_noun_with_all_that_it_takes(lake: Lakehouse, name: str) -> None:
    call = _call(name)
    root, *path = ast.unparse(call.func).split(".")
    assert root == "self"
    assert path[0] in _NOUNS
    method: Callable[..., object] = attrgetter(".".join(path))(lake)
    parameters = inspect.signature(getattr(lake, name)).parameters
    assert inspect.signature(method).parameters == parameters
    given = [ast.unparse(one) for one in call.args]
    given += [f"{one.arg}={ast.unparse(one.value)}" if one.arg else f"**{ast.unparse(one.value)}" for one in call.keywords]
    assert given == [_given(parameter) for parameter in parameters.values()]


def _given(parameter: inspect.Parameter) -> str:
    """How a delegate hands the parameter on."""
    match parameter.kind:
        case inspect.Parameter.KEYWORD_ONLY:
            return f"{parameter.name}={parameter.name}"
        case inspect.Parameter.VAR_POSITIONAL | inspect.Parameter.VAR_KEYWORD:
            return str(parameter.replace(annotation=inspect.Parameter.empty))
        case _:
            return parameter.name


def test_the_noun_of_jobs_lists_them_when_it_is_called(lake: Lakehouse) -> None:
    make_notes(lake).write(notes({1: "a"}), user="ann")
    first, second = lake.jobs.enqueue("flush"), lake.jobs.enqueue("compact")
    assert isinstance(lake.jobs, Jobs)
    assert {job.job_id for job in lake.jobs()} == {first.job_id, second.job_id}
    assert [job.job_id for job in lake.jobs(1)] == [job.job_id for job in lake.jobs(limit=1)] == [lake.jobs()[0].job_id]
