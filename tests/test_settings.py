"""Settings: where they come from, in which order, and what is said of those that cannot be."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from lakewarden.errors import InvalidArgument
from lakewarden.lakehouse import Lakehouse
from lakewarden.settings import FlushSettings, Settings, load_settings


def test_the_environment_comes_before_the_file_and_the_file_before_the_default(tmp_path: Path) -> None:
    file = tmp_path / "lakewarden.toml"
    file.write_text("[flush]\nattempts = 7\nin_process_below = 3\n[other]\nx = 1\n")
    environ = {
        "LAKEWARDEN_FLUSH__ATTEMPTS": "9",
        "lakewarden_flush__compact_after": "true",
        "LAKEWARDEN_SPARK__CONF": '{"spark.a": "b"}',
        "LAKEWARDEN_FILES__ALLOWED_MIME": '["image/*"]',
        "LAKEWARDEN_WAREHOUSE": "s3://lake",
        "FLUSH__ATTEMPTS": "1",
    }
    found = load_settings(environ, file)
    assert found.flush == FlushSettings(attempts=9, in_process_below=3, compact_after=True)
    assert (found.spark.conf, found.files.allowed_mime) == ({"spark.a": "b"}, ("image/*",))
    assert found.sql == Settings().sql
    assert pickle.loads(pickle.dumps(found)) == found


@pytest.mark.parametrize(
    ("environ", "said"),
    [
        ({"LAKEWARDEN_FLUSH__ATTEMPTS": "0"}, ">= 1 - at `$.flush.attempts`"),
        ({"LAKEWARDEN_FLUSH__ATTEMPTS": "many"}, "Expected `int`"),
        ({"LAKEWARDEN_FLUSH__ATTEMPT": "1"}, "unknown field `attempt`"),
        ({"LAKEWARDEN_LOCKS__KIND": "none"}, "'none' - at `$.locks.kind`"),
        ({"LAKEWARDEN_SPARK__CONF": "{spark.a"}, "LAKEWARDEN_SPARK__CONF begins like JSON but is not valid JSON"),
    ],
)
def test_what_a_setting_cannot_be_is_said(environ: dict[str, str], said: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument) as caught:
        load_settings(environ, tmp_path / "lakewarden.toml")
    assert said in caught.value.message


@pytest.mark.parametrize("text", ["flush = 3", "[flush", "\xff"])
def test_a_file_that_has_no_sections_is_refused(text: str, tmp_path: Path) -> None:
    file = tmp_path / "lakewarden.toml"
    file.write_bytes(text.encode("latin-1"))
    with pytest.raises(InvalidArgument, match=r"lakewarden\.toml"):
        load_settings({}, file)


def test_settings_made_in_code_are_checked_when_a_warehouse_is_opened(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="attempts"):
        Lakehouse.open(str(tmp_path / "lake"), settings=Settings(flush=FlushSettings(attempts=0)))
    assert not (tmp_path / "lake").exists()
