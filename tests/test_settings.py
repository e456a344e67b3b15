"""Settings: where they come from, in which order, and what is said of those that cannot be."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from lakewarden.base.setting_sections import CompactionSettings, FlushSettings
from lakewarden.base.settings import Settings, load_settings
from lakewarden.client import Lakehouse
from lakewarden.errors import InvalidArgument


def test_the_environment_comes_before_the_file_and_the_file_before_the_default(tmp_path: Path) -> None:
    file = tmp_path / "lakewarden.toml"
    file.write_text("[flush]\nattempts = 7\nin_process_below = 3\n")
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
        ({"LAKEWARDEN_FLUSH__ATTEMPTS": "0"}, "flush.attempts = '0': write a whole number, ≥ 1"),
        ({"LAKEWARDEN_FLUSH__ATTEMPTS": "many"}, "flush.attempts = 'many': write a whole number, ≥ 1"),
        ({"LAKEWARDEN_SQL__TIMEOUT_SECONDS": "-1"}, "sql.timeout_seconds = '-1': write a number, > 0"),
        ({"LAKEWARDEN_FLUSH__COMPACT_AFTER": "maybe"}, "flush.compact_after = 'maybe': write true or false"),
        ({"LAKEWARDEN_FILES__ALLOWED_MIME": '{"a": "b"}'}, "files.allowed_mime: write a list of texts"),
        ({"LAKEWARDEN_SPARK__CONF": '{"secret": 7}'}, "spark.conf: write texts by name"),
        ({"LAKEWARDEN_FLUSH__ATTEMPT": "1"}, "[flush] has no 'attempt'; it has in_process_below, large_scope_bytes"),
        ({"LAKEWARDEN_FLUHS__ATTEMPTS": "1"}, "there is no section [fluhs]; there are log, flush"),
        ({"LAKEWARDEN_LOCKS__KIND": "none"}, "locks.kind = 'none': write a text, "),
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


def test_an_unknown_section_is_an_error_when_a_warehouse_is_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "lakewarden.toml").write_text("[flusch]\nattempts = 7\n")
    with pytest.raises(InvalidArgument, match=r"no section \[flusch\]"):
        Lakehouse.open(str(tmp_path / "lake"))
    assert not (tmp_path / "lake").exists()


SEED = """
[flush.compaction]
enabled = true
min_eligible_segments = 4
max_segments_per_run = 6
user_max_segment_rows = 100
shared_max_segment_rows = 200
"""


def test_compaction_as_kalamdb_writes_it(tmp_path: Path) -> None:
    file = tmp_path / "lakewarden.toml"
    file.write_text(SEED)
    found = load_settings({}, file)
    assert found.flush.compact_after
    assert found.compaction == CompactionSettings(
        min_eligible_segments=4, max_segments_per_run=6, user_max_segment_rows=100, shared_max_segment_rows=200
    )
    environ = {"LAKEWARDEN_FLUSH__COMPACT_AFTER": "false", "LAKEWARDEN_FLUSH__COMPACTION": '{"max_segments_per_run": 3}'}
    assert not load_settings(environ, file).flush.compact_after
    assert load_settings(environ, file).compaction.max_segments_per_run == 3


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            SEED + "[compaction]\nmax_segments_per_run = 6\n",
            "max_segments_per_run is compaction.max_segments_per_run",
        ),
        (SEED + "[flush]\ncompact_after = true\n", "flush.compaction.enabled is flush.compact_after"),
        (SEED + "segments = 4\n", "[compaction] has no 'segments'; it has min_eligible_segments"),
        ("[flush]\ncompaction = true\n", "flush.compaction is a section"),
        ("[flush.compaction]\nmin_eligible_segments = 1\n", "compaction.min_eligible_segments = 1: write a whole number, ≥ 2"),
    ],
)
def test_compaction_that_cannot_be_is_refused(text: str, said: str, tmp_path: Path) -> None:
    file = tmp_path / "lakewarden.toml"
    file.write_text(text)
    with pytest.raises(InvalidArgument) as caught:
        load_settings({}, file)
    assert said in caught.value.message


def test_a_warehouse_begins_with_the_templates_of_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "lakewarden.toml"
    file.write_text('[storage]\nuser_tables_template = "u/{userId}/{tableName}"\n')
    with pytest.raises(InvalidArgument, match="namespace"):
        Lakehouse.open(str(tmp_path / "lake"))
    assert not (tmp_path / "lake").exists()
    user, shared = "u/{namespace}/{tableName}/{userId}", "s/{namespace}/{tableName}"
    file.write_text(f'[storage]\nuser_tables_template = "{user}"\nshared_tables_template = "{shared}"\n')
    with Lakehouse.open(str(tmp_path / "lake")) as lake:
        lake.sql("CREATE NAMESPACE n; CREATE SHARED TABLE n.t (id BIGINT PRIMARY KEY); INSERT INTO n.t VALUES (1)")
        lake.sql("CREATE USER TABLE n.u (id BIGINT PRIMARY KEY)")
        lake.table("n.u").write([{"id": 1}], user="ann")
        lake.flush()
    assert (tmp_path / "lake/data/s/n/t/_delta_log").is_dir()
    assert (tmp_path / "lake/data/u/n/u/ann/_delta_log").is_dir()
    file.write_text('[storage]\nshared_tables_template = "other/{namespace}/{tableName}"\n')
    with Lakehouse.open(str(tmp_path / "lake")) as lake:  # which keeps what it began with
        assert lake.warehouse.catalog.read().storages["local"].shared_template == "s/{namespace}/{tableName}"
        assert lake.table("n.t").read().to_pylist() == [{"id": 1}]
