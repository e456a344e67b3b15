"""The command `file`, and `sql --file`, as a program sees them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lakewarden.cli.main import main

pytestmark = pytest.mark.disk  # some look into the directories themselves

Call = Callable[..., tuple[int, list[Any]]]

_TABLE = "CREATE NAMESPACE app; CREATE USER TABLE app.t (id INT PRIMARY KEY, note TEXT NOT NULL, photo FILE)"


@pytest.fixture
def call(warehouse_uri: str, capsys: pytest.CaptureFixture[str]) -> Call:
    """Runs a command with JSON output: the exit status, and the object of each line."""

    def run(*arguments: str) -> tuple[int, list[Any]]:
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main(["--warehouse", warehouse_uri, "--format", "json", *arguments])
        code = ended.value.code
        return code if isinstance(code, int) else 0, [json.loads(line) for line in capsys.readouterr().out.splitlines()]

    return run


@pytest.fixture
def photo(tmp_path: Path) -> Path:
    path = tmp_path / "cat.png"
    path.write_bytes(b"\x89pixels")
    return path


@pytest.mark.slow
def test_put_list_get_and_delete(call: Call, photo: Path, tmp_path: Path) -> None:
    call("sql", _TABLE)
    ada = ("--user", "ada", "--role", "user")
    _, [[stored]] = call("file", "put", "app.t", "photo", str(photo), "--key", "id=1", "--set", "note=n", *ada)
    assert (stored["name"], stored["mime"]) == ("cat.png", "image/png")
    assert stored["sha256"] == hashlib.sha256(photo.read_bytes()).hexdigest()
    other = tmp_path / "dog.txt"
    other.write_bytes(b"wuff")
    assert call("file", "put", "app.t", "photo", str(other), "--key", "id=1", *ada)[0] == 0
    assert call("sql", "SELECT note FROM app.t", *ada)[1][0]["rows"] == [{"note": "n"}]
    _, [[listed]] = call("file", "list", "app.t", *ada)
    assert (listed["key"], listed["column"], listed["name"]) == ({"id": 1}, "photo", "dog.txt")
    target = tmp_path / "out"
    assert call("file", "get", "app.t", "photo", str(target), "--key", "id=1", *ada)[0] == 0
    assert target.read_bytes() == b"wuff"
    assert call("file", "get", "app.t", "photo", str(target), "--key", "id=1", *ada)[1][-1]["error"]["code"] == "ALREADY_EXISTS"
    assert call("file", "delete", "app.t", "photo", "--key", "id=1", *ada)[0] == 0
    assert call("file", "list", "app.t", *ada)[1] == [[]]


def test_standard_output_gets_the_bytes(photo: Path, warehouse_uri: str, capfdbinary: Any) -> None:
    with pytest.raises(SystemExit):
        main(["--warehouse", warehouse_uri, "sql", _TABLE])
    with pytest.raises(SystemExit):
        main(["--warehouse", warehouse_uri, "file", "put", "app.t", "photo", str(photo), "--key", "id=1", "--set", "note=n"])
    capfdbinary.readouterr()
    with pytest.raises(SystemExit):
        main(["--warehouse", warehouse_uri, "file", "get", "app.t", "photo", "--key", "id=1"])
    assert capfdbinary.readouterr().out == photo.read_bytes()


_FAILING = [
    (("app.t", "photo", "PATH", "--key", "id=one"), "INVALID_ARGUMENT"),
    (("app.t", "photo", "PATH", "--key", "nope=1"), "INVALID_ARGUMENT"),
    (("app.t", "photo", "PATH", "--key", "id"), "INVALID_ARGUMENT"),
    (("app.t", "note", "PATH", "--key", "id=1"), "INVALID_ARGUMENT"),
    (("app.t", "photo", "PATH.not", "--key", "id=1"), "INVALID_ARGUMENT"),
    (("app.t", "photo", "PATH", "--key", "id=1"), "CONSTRAINT_VIOLATION"),
    (("app.x", "photo", "PATH", "--key", "id=1"), "NOT_FOUND"),
    (("app.t", "photo", "PATH", "--key", "id=1", "--role", "anonymous"), "PERMISSION_DENIED"),
]


def test_what_cannot_be_put_leaves_nothing(call: Call, photo: Path, warehouse_uri: str) -> None:
    call("sql", _TABLE)
    for arguments, code in _FAILING:
        status, lines = call("file", "put", *(word.replace("PATH", str(photo)) for word in arguments))
        assert (status, lines[-1]["error"]["code"]) == (1, code), arguments
    assert not [path for path in Path(warehouse_uri).rglob("*") if "_files" in path.parts and path.is_file()]


def test_sql_takes_files_along(call: Call, photo: Path, tmp_path: Path) -> None:
    call("sql", _TABLE)
    insert = "INSERT INTO app.t VALUES (1, 'n', FILE(\"photo\"))"
    assert call("sql", insert, "--file", f"photo={photo}")[1][0]["rows_affected"] == 1
    target = tmp_path / "out.png"
    call("file", "get", "app.t", "photo", str(target), "--key", "id=1")
    assert target.read_bytes() == photo.read_bytes()
    assert call("sql", "SELECT photo->>'$.name' AS name FROM app.t")[1][0]["rows"] == [{"name": "cat.png"}]
    assert call("sql", insert, "--file", "photo")[0] == 2
    assert call("sql", insert, "--file", f"photo={photo}", "--file", f"photo={photo}")[0] == 2
