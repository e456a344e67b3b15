"""Templates are found by entry points; a broken one is an error only where it is used. Options are checked."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from lakewarden.errors import InvalidArgument, NotFound, Unsupported
from lakewarden.ingest.templates.options import option_names, parse_options, template_named, template_names
from tests.ingest.templates.objects import read
from tests.ingest.templates.packages import install

_CODE = """
import pyarrow as pa

from lakewarden.ingest.templates.template import Library, Template
MINE = Template("mine", ("log",), lambda source, options, columns: [])
def words(source):
    with source.open() as file:
        return pa.table({"word": file.read().decode().split()})


words.accepted_extensions = ["words"]
NEEDS = Template("needs", (), MINE.read, libraries=(Library("no_such_module", "documents"),))
"""
_NAMES = {"mine": "MINE", "other": "MINE", "broken": "NONE", "needs": "NEEDS", "csv": "MINE", "words": "words"}


@pytest.fixture(autouse=True)
def _package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "their_templates.py").write_text(_CODE)
    install(monkeypatch, tmp_path, {name: f"their_templates:{value}" for name, value in _NAMES.items()})
    monkeypatch.delitem(sys.modules, "their_templates", raising=False)


def test_a_template_of_another_package() -> None:
    assert template_named("mine").accepted_extensions == ("log",)
    assert {"csv", "mine", "broken"} <= set(template_names())


def test_a_plain_function_is_a_template() -> None:
    words = template_named("words")
    assert words.accepted_extensions == ("words",)
    assert read(words, b"one two")["word"].to_pylist() == ["one", "two"]


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(NotFound, match=r"no template 'cvs'; known are .*csv.*mine"):
        template_named("cvs")


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("broken", r"entry point of template 'broken' \(their_templates:NONE\) fails"),
        ("other", r"'other' .* should name a lakewarden Template with this name, or a function"),
        ("csv", "two packages have a template 'csv'"),
    ],
)
def test_a_broken_entry_point_is_an_error_with_its_name(name: str, why: str) -> None:
    with pytest.raises(InvalidArgument, match=why):
        template_named(name)


def test_a_missing_library_is_named_with_its_extra() -> None:
    with pytest.raises(Unsupported, match=r"needs the library no_such_module.*lakewarden\[documents\]"):
        template_named("needs")


def test_options_are_checked_by_name_and_type(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    csv = template_named("csv")
    assert "delimiter" in option_names(csv)
    wrong: list[tuple[dict[str, object], str]] = [
        ({"DELIMITR": ";"}, "no option 'DELIMITR'; its options are delimiter, header"),
        ({"header": "maybe"}, "header"),
        ({"header": True, "HEADER": True}, "given twice"),
        ({"delimiter": "ab"}, "one ASCII character"),
        ({"skip_lines": -1}, "skip_lines"),
    ]
    for given, why in wrong:
        with pytest.raises(InvalidArgument, match=why):
            parse_options(csv, given)
