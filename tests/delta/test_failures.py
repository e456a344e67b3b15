"""What goes wrong below us becomes one of our errors, with a sentence."""

from __future__ import annotations

import errno
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from lakewarden import Lakehouse
from lakewarden.base.connection import Location
from lakewarden.delta.failures import delta_errors
from lakewarden.delta.table import ScopeTable
from lakewarden.errors import Conflict, Corrupt, LakewardenError, StorageRefused, StorageUnavailable, Unsupported
from lakewarden.storage.location import delta_uri
from lakewarden.storage.open import open_store
from tests.delta.scopes import flush, people, target
from tests.fixtures.lakes import eventual, make_notes, notes


class PanicException(BaseException):  # pyo3's own name, by which it is told
    pass


@pytest.mark.parametrize(("error", "ours"), [
    (DeltaError("Kernel error: Unsupported minimum reader version 99"), Unsupported),
    (DeltaError("Kernel error: Json error: broken"), Corrupt),
    (OSError("Unable to copy data to file\n \x1b[31m↳\x1b[0m No space left on device (os error 28)"), StorageRefused),
    (OSError(f"Unable to copy {'long/' * 200}x: No space left on device (os error 28)"), StorageRefused),
    (OSError(errno.EROFS, "Read-only file system"), StorageRefused),
    (OSError("Generic S3 error: server returned 403 Forbidden"), StorageRefused),
    (OSError("error sending request: Connection refused (os error 111)"), StorageUnavailable),
    (DeltaError("Kernel error: Generic S3 error: Error performing GET x, after 4 retries"), StorageUnavailable),
    (DeltaError("Generic S3 error: Error getting list response body: HTTP error: broken"), StorageUnavailable),
    (DeltaError("Kernel error: Generic S3 error: 403 Forbidden: AccessDenied"), StorageRefused),
    (PanicException("odd path"), Corrupt),
    (pa.ArrowInvalid("not a parquet file"), Corrupt),
])  # fmt: skip
def test_errors_become_ours(error: BaseException, ours: type[LakewardenError]) -> None:
    with pytest.raises(ours) as raised, delta_errors("cannot commit to here"):
        raise error
    assert str(raised.value).startswith("cannot commit to here: ")
    assert "\n" not in str(raised.value)
    assert "\x1b" not in str(raised.value)


def test_what_is_no_error_of_theirs_passes() -> None:
    for error in (KeyboardInterrupt(), KeyError("ours"), Conflict("ours")):
        with pytest.raises(type(error)) as raised, delta_errors("x"):
            raise error
        assert raised.value is error


@pytest.mark.disk
def test_a_full_disk_is_refused_in_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "x.parquet").symlink_to("/dev/full")
    with pytest.raises(StorageRefused, match="No space left"):
        open_store(Location(str(tmp_path))).write("x.parquet", b"data")


@pytest.mark.disk
def test_a_replacement_that_fails_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "manifest.json").mkdir()
    with pytest.raises(LakewardenError):
        open_store(Location(str(tmp_path))).replace("manifest.json", b"x")
    assert [path.name for path in tmp_path.iterdir()] == ["manifest.json"]


@pytest.mark.disk
def test_a_file_where_a_directory_should_be(tmp_path: Path) -> None:
    (tmp_path / "t").write_text("")
    with pytest.raises(LakewardenError):
        flush(target(tmp_path / "t"), people(1))


def test_damage_is_corrupt(tmp_path: Path) -> None:
    scope = target(tmp_path / "t")
    flush(scope, people(1))
    flush(scope, people(2), first_seq=1)
    (tmp_path / "t" / "_delta_log" / f"{0:020d}.json").unlink()
    with pytest.raises(Corrupt):
        ScopeTable.open(scope.location)


@pytest.mark.disk
@pytest.mark.parametrize("name", ["a b", "100%", "ü#?&", "{x}", "a!25", "'\""])
def test_odd_directories_are_what_they_are_called(tmp_path: Path, name: str) -> None:
    scope = target(tmp_path / name)
    flush(scope, people(1))
    flush(scope, people(1, name="new"), first_seq=1)
    assert sorted(path.name for path in tmp_path.iterdir()) == [name]
    table = ScopeTable.open(scope.location)
    assert table is not None
    assert DeltaTable(delta_uri(scope.uri)).version() == 1
    assert table.version == 1


@pytest.mark.parametrize("name", ["a%2e%2e%2fx", "a\\b"])
def test_a_directory_that_deltalake_would_mistake_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(Unsupported, match="escape"):
        flush(target(tmp_path / name), people(1))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.disk
def test_a_long_path_is_as_good_as_a_short_one(tmp_path: Path) -> None:
    """deltalake says behind the path that nothing is there."""
    user = "x" * 256
    with Lakehouse.open(str(tmp_path / ("a" * 150) / "w")) as lake:
        table = make_notes(lake)
        table.write(notes({1: "one"}), user=user)
        assert [one.outcome for one in lake.flush()] == ["done"]
        assert eventual(table, user) == {1: "one"}
