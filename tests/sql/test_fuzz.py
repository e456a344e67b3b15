"""Mutated statements: each ends in a result or in an error with a code, and never in a fault of ours."""

from __future__ import annotations

import os
import random
from collections import Counter
from pathlib import Path

import pytest

from lakewarden import Lakehouse, Settings
from lakewarden.base.setting_sections import SqlSettings
from lakewarden.errors import LakewardenError
from tests.fixtures.examples import examples
from tests.sql.corpus import CORPUS, cases
from tests.sql.mutate import mutated

COUNT = int(os.environ.get("LAKEWARDEN_MUTATIONS", examples(2000, gate=800)))  # of fewer, chance decides how many have a result
SEED = int(os.environ.get("LAKEWARDEN_SEED", "20261121"))
_SESSIONS = (("admin", "system"), ("ada", "user"), ("sam", "service"), ("nobody", "anonymous"))
"""None is the operator's: their queries run in workers."""

_SETUP = """
CREATE USER TABLE app.t (id BIGINT PRIMARY KEY, name TEXT, n INT, price DECIMAL(10, 2), data JSON);
CREATE USER TABLE app.k (a INT, b TEXT, v DOUBLE, PRIMARY KEY (a, b));
CREATE SHARED TABLE app.s (id INT PRIMARY KEY, v TEXT) WITH (ACCESS_LEVEL = 'PUBLIC');
INSERT INTO app.t VALUES (1, 'a', 1, 1.5, '{"x": 1}'), (2, 'b', 2, NULL, NULL);
INSERT INTO app.s VALUES (1, 'x')
"""
_TOO_MUCH = ("STORAGE", "DROP NAMESPACE", "DROP TABLE", "PRIMARY KEY")
"""What would empty the warehouse or fill it with tables; enough of it is mutated in the other tests' own words."""
_CODES = {
    *("SYNTAX_ERROR", "INVALID_ARGUMENT", "ALREADY_EXISTS", "NOT_FOUND", "PERMISSION_DENIED", "CONSTRAINT_VIOLATION"),
    *("CONFLICT", "UNSUPPORTED", "FAILED_PRECONDITION"),
}


@pytest.mark.slow
@pytest.mark.campaign
def test_a_mutated_statement_ends_in_a_result_or_a_coded_error(warehouse_uri: str, tmp_path: Path) -> None:
    chance = random.Random(SEED)
    statements = _statements()
    settings = Settings(sql=SqlSettings(timeout_seconds=3, memory_bytes=256 << 20, result_bytes=16 << 20))
    seen: Counter[str] = Counter()
    with Lakehouse.open(warehouse_uri, settings=settings) as lake:
        _fill(lake)
        sessions = [lake.session(user=user, role=role) for user, role in _SESSIONS]
        for number in range(COUNT):
            text = mutated(chance, statements)
            try:
                chance.choice(sessions).sql(text)
                code = "a result"
            except LakewardenError as error:
                code = error.code
            except Exception as fault:
                raise AssertionError(f"statement {number} of seed {SEED} ended in {fault!r}: {text!r}") from fault
            assert code in _CODES or code == "a result", f"{code} of statement {number} of seed {SEED}: {text!r}"
            seen[code] += 1
    assert seen["a result"] > COUNT // 50, seen
    assert seen["SYNTAX_ERROR"] > COUNT // 10, seen
    assert not [path for path in tmp_path.iterdir() if path.name != "warehouse"], "nothing is written beside the warehouse"


def _statements() -> list[str]:
    """Those of the corpus that mean something, and leave the tables where they are."""
    found = [case for path in sorted(CORPUS.glob("*.txt")) for case in cases(path) if "SYNTAX" not in case.outcome]
    kept = [case.statement for case in found if not any(word in case.statement.upper() for word in _TOO_MUCH)]
    return [statement for statement in kept if _tokenizes(statement)] + ["CREATE TABLE app.t (id INT PRIMARY KEY, v TEXT)"]


def _fill(lake: Lakehouse) -> None:
    """The tables that the corpus' queries are about, and its rows."""
    for case in cases(CORPUS / "queries.txt"):
        if case.statement.startswith(("CREATE", "INSERT")) and case.outcome.startswith(("message", "1", "2", "3", "4")):
            lake.sql(case.statement)
    lake.sql(_SETUP)


def _tokenizes(statement: str) -> bool:
    try:
        mutated(random.Random(0), [statement])
    except Exception:  # noqa: BLE001  # the corpus has texts that are no SQL on purpose
        return False
    return True
