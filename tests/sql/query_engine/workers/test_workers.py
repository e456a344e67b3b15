"""Worker processes: the answers of the engine in process, hard bounds, and nothing of this process in them."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest

from lakewarden.base import frames
from lakewarden.base.setting_sections import SqlSettings
from lakewarden.base.worker_child import ProcessMemory
from lakewarden.base.workers import Pool
from lakewarden.errors import BadSyntax, InvalidArgument, Unsupported
from lakewarden.sql.query_engine.engine import Limits
from lakewarden.sql.query_engine.in_process import engine_of_process
from lakewarden.sql.query_engine.workers import messages
from lakewarden.sql.query_engine.workers.engine import Worker, Workers, pool_of_process
from lakewarden.sql.query_engine.workers.messages import EngineRequest, QueryBounds, overall
from lakewarden.sql.results import ResultRows
from tests.fixtures.patience import PATIENCE
from tests.sql.query_engine.heavy import HEAVY

pytestmark = pytest.mark.slow  # each starts processes

_LIMITS = Limits(PATIENCE, 1 << 24)
_SMALL = SqlSettings(memory_bytes=1 << 26, workers=2, threads=1)
_ROOMY = SqlSettings(memory_bytes=1 << 30, workers=2, threads=1)
"""Where the time is to end a query: a quick machine fills less memory before that."""
_ENDLESS = "SELECT count(*) FROM range(1000000) a, range(1000000) b, range(1000000) c"
_GIVEN = {"given": pa.table({"n": [1, 2, None], "v": ["a", "b", "c"]})}


@pytest.fixture(scope="module")
def workers() -> Iterator[Workers]:
    engine = Workers.of(_SMALL)
    yield engine
    engine.close()


@pytest.fixture
def worker() -> Iterator[Worker]:
    started = Worker.start(QueryBounds(1 << 26, 1))
    yield started
    started.end()


def _pid(worker: Worker) -> int:
    return worker._process.pid


def _idle(engine: Workers) -> list[int]:
    return [_pid(each) for each in engine._pool._idle]


def _gone(pid: int) -> bool:
    """Waits for a process that is not this one's child."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([handle], [], [], PATIENCE)[0])
    finally:
        os.close(handle)


def _started(engine: Workers, sql: str, pool: ThreadPoolExecutor) -> tuple[int, Future[ResultRows]]:
    """The worker that a query is running on, once it runs there."""
    running = pool.submit(engine.run, sql, {}, _LIMITS)
    pid = None
    while pid is None:
        found = [each for each in _children() if _state(each) == "R"]
        pid = found[0] if found else None
    return pid, running


def _open_here() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def _children() -> list[int]:
    tasks = Path("/proc/self/task")
    return [int(pid) for task in tasks.iterdir() for pid in (task / "children").read_text().split()]


def _state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()[0]


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT 1 AS a, 'x' AS b, NULL AS c, 1.5 AS d, [1, 2] AS e, {'k': 1} AS f, map {'a': 1} AS g",
        "SELECT n, v FROM given ORDER BY n",
        "SELECT n FROM given WHERE n > 100",
        "SELECT 170141183460469231731687303715884105727::HUGEINT AS h, 'a'::ENUM ('a', 'b') AS e, '{}'::JSON AS j",
        "SELECT '550e8400-e29b-41d4-a716-446655440000'::UUID AS u, '101'::BIT AS b, 'x'::BLOB AS r, INTERVAL 1 DAY AS i",
        "SELECT DATE '2024-01-01' AS d, TIME '10:00:00' AS t, now() - now() AS z, 'infinity'::TIMESTAMP AS f",
        "SELECT range AS n, 'row ' || range AS v FROM range(250000)",
        "SELECT CASE WHEN range % 2 = 0 THEN 'even' ELSE 'odd' END::ENUM ('even', 'odd') AS e FROM range(250000)",
        "SELECT 1 AS a, 1 AS a",
        "SELECT '\ud7ff' AS \"é\"",
    ],
)
def test_answers_are_those_in_process(workers: Workers, sql: str) -> None:
    here = engine_of_process(SqlSettings()).run(sql, _GIVEN, _LIMITS)
    there = workers.run(sql, _GIVEN, _LIMITS)
    assert there.types == here.types
    assert there.table.schema.equals(here.table.schema, check_metadata=True)
    assert there.table.equals(here.table)


@pytest.mark.parametrize(
    ("sql", "error"),
    [
        ("SELECT (", BadSyntax),
        ("SELECT nothing", InvalidArgument),
        ("SELECT '\ud800'", InvalidArgument),
        ("DROP TABLE t", Unsupported),
    ],
)
def test_errors_are_those_in_process_and_the_worker_stays(workers: Workers, sql: str, error: type[Exception]) -> None:
    workers.run("SELECT 1", {}, _LIMITS)
    before = _idle(workers)
    with pytest.raises(error) as there:
        workers.run(sql, {}, _LIMITS)
    with pytest.raises(error) as here:
        engine_of_process(SqlSettings()).run(sql, {}, _LIMITS)
    assert str(there.value) == str(here.value)
    assert _idle(workers) == before


def test_an_error_after_the_first_rows_is_an_error(workers: Workers) -> None:
    with pytest.raises(InvalidArgument, match="the last one"):
        workers.run("SELECT CASE WHEN range = 200000 THEN error('the last one') END FROM range(200001)", {}, _LIMITS)
    assert workers.run("SELECT count(*) AS n FROM given", _GIVEN, _LIMITS).table.to_pylist() == [{"n": 3}]


def test_a_result_beyond_its_bound_is_refused(workers: Workers) -> None:
    with pytest.raises(Unsupported, match=r"larger than 1,000,000 bytes \(sql.result_bytes\)"):
        workers.run("SELECT * FROM range(10000000)", {}, Limits(PATIENCE, 1_000_000))


def test_a_text_that_passed_is_checked_once(workers: Workers) -> None:
    workers.check("SELECT 'once'", _LIMITS)
    pool_of_process(_SMALL).end()
    workers.check("SELECT 'once'", _LIMITS)
    assert _idle(workers) == []


def test_the_kernel_bounds_its_memory(worker: Worker) -> None:
    limits = Path(f"/proc/{_pid(worker)}/limits").read_text()
    (line,) = (line for line in limits.splitlines() if line.startswith("Max data size"))
    most = int(line.split()[3])
    status = Path(f"/proc/{_pid(worker)}/status").read_text()
    (data,) = (line for line in status.splitlines() if line.startswith("VmData"))
    assert 0 < most - overall(1 << 26) <= (int(data.split()[1]) << 10) + (1 << 24)


@pytest.mark.parametrize("name", ["replace", pytest.param("list of texts", marks=pytest.mark.slow)])
def test_a_query_beyond_its_memory_fails_alone(workers: Workers, name: str) -> None:
    with pytest.raises(Unsupported, match=r"sql\.memory_bytes"):
        workers.run(HEAVY[name], {}, _LIMITS)
    assert workers.run("SELECT 1 AS n", {}, _LIMITS).table.to_pylist() == [{"n": 1}]


def test_a_query_that_no_interrupt_stops_is_ended_with_its_worker() -> None:
    workers = Workers.of(_ROOMY)
    workers.run("SELECT 1", {}, _LIMITS)
    before = _idle(workers)[-1]
    with pytest.raises(Unsupported, match=r"longer than 0\.1 seconds \(sql.timeout_seconds\)"):
        workers.run(HEAVY["CTEs that double"], {}, Limits(0.1, 1 << 20))
    assert before not in _idle(workers)
    assert _gone(before)
    assert workers.run("SELECT 1 AS n", {}, _LIMITS).table.to_pylist() == [{"n": 1}]
    workers.close()


def test_a_worker_that_does_not_answer_is_ended(worker: Worker) -> None:
    """Its own timer stands still with it."""
    os.kill(_pid(worker), signal.SIGSTOP)
    with pytest.raises(Unsupported, match="longer than 0 seconds"):
        worker.call(EngineRequest("run", b"SELECT 1", 0.0, 1 << 20), {}, Limits(0.0, 1 << 20))
    assert not worker.alive


def test_an_answer_that_was_not_read_to_its_end_is_no_other_query_s(workers: Workers, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the next query of whomever would be given the rest of it."""

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    workers.run("SELECT 1", {}, _LIMITS)
    with monkeypatch.context() as patch:
        patch.setattr(frames, "receive", interrupted)
        with pytest.raises(KeyboardInterrupt):
            workers.run("SELECT 'a secret' AS s", {}, _LIMITS)
    for _ in range(3):
        assert workers.run("SELECT 1 AS n", {}, _LIMITS).table.to_pylist() == [{"n": 1}]


def test_a_worker_that_keeps_much_memory_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = Workers(Pool(partial(Worker.start, QueryBounds(1 << 26, 1)), 1, "processes"))
    try:
        engine.run("SELECT 1", {}, _LIMITS)
        before = _idle(engine)
        end_of = messages.end_of
        with monkeypatch.context() as patch:
            patch.setattr(messages, "end_of", lambda frame: replace(end_of(frame), worn=True))
            engine.run("SELECT 1", {}, _LIMITS)
        assert _idle(engine) == []
        engine.run("SELECT 1", {}, _LIMITS)
        assert _idle(engine) != before
    finally:
        engine.close()


def test_memory_that_is_kept_counts_above_half_of_what_is_allowed() -> None:
    begun = ProcessMemory(os.open("/proc/self/statm", os.O_RDONLY), 0, 1)
    assert begun.grown()
    assert not ProcessMemory(begun.figures, 0, 1 << 60).grown()
    assert begun.figures is not None
    os.close(begun.figures)


def test_its_own_timer_ends_it() -> None:
    """Should this process be gone, nothing else would end a query that holds the interpreter."""
    worker = Worker.start(QueryBounds(_ROOMY.memory_bytes, 1))
    request = EngineRequest("run", HEAVY["CTEs that double"].encode(), 0.0, 1 << 20)
    with pytest.raises(Unsupported):
        worker.call(request, {}, Limits(PATIENCE, 1 << 20))
    assert worker.end() == -signal.SIGALRM


def test_a_killed_worker_costs_its_own_query_alone(workers: Workers) -> None:
    with ThreadPoolExecutor(2) as pool:
        pid, doomed = _started(workers, _ENDLESS, pool)
        for _ in range(20):
            assert workers.run("SELECT count(*) AS n FROM given", _GIVEN, _LIMITS).table.to_pylist() == [{"n": 3}]
        assert not doomed.done(), "another worker served the others meanwhile"
        (other,) = (each for each in _idle(workers) if each != pid)
        os.kill(pid, signal.SIGKILL)
        with pytest.raises(Unsupported, match="ended the process that ran it"):
            doomed.result()
    assert workers.run("SELECT 1 AS n", {}, _LIMITS).table.to_pylist() == [{"n": 1}]
    assert _idle(workers) == [other]


def test_an_idle_worker_that_is_killed_costs_no_query(workers: Workers) -> None:
    workers.run("SELECT 1", {}, _LIMITS)
    pid = _idle(workers)[-1]
    os.kill(pid, signal.SIGKILL)
    assert _gone(pid)
    assert workers.run("SELECT 1 AS n", {}, _LIMITS).table.to_pylist() == [{"n": 1}]


def test_it_has_nothing_of_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hush hush")
    with open(__file__) as inherited:  # noqa: PTH123
        os.set_inheritable(inherited.fileno(), True)
        worker = Worker.start(QueryBounds(1 << 26, 1))
        try:
            root = Path(f"/proc/{_pid(worker)}")
            assert b"hush" not in root.joinpath("environ").read_bytes()
            assert root.joinpath("cwd").readlink() == Path("/")
            opened = sorted(str(each.readlink()).partition(":")[0] for each in root.joinpath("fd").iterdir())
            assert opened == ["/dev/null", "/dev/null", "/dev/null", f"/proc/{_pid(worker)}/statm", "socket"]
            assert os.getpriority(os.PRIO_PROCESS, _pid(worker)) == os.getpriority(os.PRIO_PROCESS, 0)
        finally:
            worker.end()


def test_no_descriptor_stays_open_here(workers: Workers) -> None:
    workers.run("SELECT * FROM given", _GIVEN, _LIMITS)
    before = _open_here()  # with the connections to idle workers
    kept = [workers.run("SELECT * FROM given", _GIVEN, _LIMITS) for _ in range(50)]
    assert _open_here() == before
    assert len(kept) == 50
    ended = len(_idle(workers))
    pool_of_process(_SMALL).end()
    assert _open_here() == before - ended


def test_closing_ends_it_by_itself(worker: Worker) -> None:
    assert worker.end() == 0
    assert not worker.alive


_ORPHANING = """
import sys, threading
from lakewarden.base.setting_sections import SqlSettings
from lakewarden.sql.query_engine.engine import Limits
from lakewarden.sql.query_engine.workers.engine import Workers

engine, limits = Workers.of(SqlSettings(workers=2)), Limits(3600.0, 1 << 20)
engine.run("SELECT 1", {}, limits)
print(engine._pool._idle[0]._process.pid, flush=True)
if sys.argv[1] == "busy":
    threading.Thread(target=engine.run, args=(sys.argv[2], {}, limits)).start()
    while engine._pool._idle:
        pass
print("busy", flush=True)
if sys.argv[1] != "exit":
    threading.Event().wait()
"""


@pytest.mark.parametrize("how", ["idle", "busy", "exit"])
def test_workers_end_with_their_process_however_it_ends(how: str) -> None:
    command = [sys.executable, "-c", _ORPHANING, how, _ENDLESS]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        pid = int(process.stdout.readline())
        assert process.stdout.readline()
        if how != "exit":
            process.kill()
        assert _gone(pid)
        assert process.stderr.read() == ""


_FORKING = """
import os, sys
from lakewarden.base.setting_sections import SqlSettings
from lakewarden.sql.query_engine.engine import Limits
from lakewarden.sql.query_engine.workers.engine import Workers

engine, limits = Workers.of(SqlSettings()), Limits(3600.0, 1 << 20)
engine.run("SELECT 1", {}, limits)
mine = engine._pool._idle[0]._process.pid
child = os.fork()
if child == 0:
    engine.run("SELECT 1", {}, limits)
    theirs = engine._pool._idle[0]._process.pid
    engine.close()
    os._exit(7 if theirs != mine else 1)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
engine.run("SELECT 1", {}, limits)
assert engine._pool._idle[0]._process.pid == mine
"""


def test_a_forked_process_starts_its_own() -> None:
    ran = subprocess.run([sys.executable, "-W", "ignore", "-c", _FORKING], check=False, capture_output=True, text=True)
    assert (ran.returncode, ran.stderr) == (0, "")


_SCRIPT = """
import sys
from lakewarden import Lakehouse
lake = Lakehouse.open(sys.argv[1])
lake.sql("CREATE NAMESPACE app; CREATE USER TABLE app.t (id BIGINT PRIMARY KEY)")
session = lake.session(user="ada")
session.sql("INSERT INTO app.t VALUES (1)")
print(session.sql("SELECT count(*) AS n FROM app.t")[0].to_pylist())
"""


@pytest.mark.disk
def test_a_script_needs_no_guard_of_its_main_module(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(_SCRIPT)
    ran = subprocess.run(
        [sys.executable, str(script), str(tmp_path / "lake")], check=False, capture_output=True, text=True, cwd=tmp_path
    )
    assert (ran.stdout, ran.stderr) == ("[{'n': 1}]\n", "")
