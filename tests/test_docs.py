"""What the documentation says is so: its snippets run, its references are what the code says, its links lead somewhere.

In README.md and docs/**/*.md, blocks marked `python` and `console` run, each file's in their order and in one empty
directory; of a console block the lines that begin with `$ `. `python spark` and `console spark` start a JVM, `python dagster`
loads Dagster. What is not to be run is marked otherwise (`sh`, `toml`, `yaml`).
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from _pytest.mark.structures import ParameterSet

from docs.decision_index import FIRST, decisions
from docs.generate import PAGES
from lakewarden.cli.main import main

_ROOT = Path(__file__).parent.parent
_BLOCK = re.compile(r"^```([^\n`]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\((?!https?:|#|mailto:)([^)#\s]+)")
_SLOW = {"docs/pipelines.md"}
_LARGEST_PICTURE = 200_000
"""Bytes."""
_FILES = sorted([_ROOT / "README.md", _ROOT / "CONTRIBUTING.md", _ROOT / "CHANGELOG.md", *(_ROOT / "docs").rglob("*.md")])


@dataclass(frozen=True)
class Block:
    words: tuple[str, ...]
    text: str
    line: int

    @property
    def language(self) -> str:
        return self.words[0] if self.words else ""

    @property
    def runs(self) -> bool:
        return self.language in {"python", "console"}


def _blocks(text: str) -> list[Block]:
    return [Block(tuple(found[1].split()), found[2], text[: found.start()].count("\n") + 2) for found in _BLOCK.finditer(text)]


def block_after(file: str, heading: str, language: str) -> str:
    """The first block of that language below a heading, for tests of what the block configures."""
    below = (_ROOT / file).read_text().partition(f"\n{heading}\n")[2]
    return next(block.text for block in _blocks(below) if block.language == language)


def _files_that_run() -> Iterator[ParameterSet]:
    for path in _FILES:
        blocks = [block for block in _blocks(path.read_text()) if block.runs]
        if blocks:
            needs = [pytest.mark.spark, pytest.mark.dagster]
            marks = [mark for mark in needs if any(mark.name in block.words for block in blocks)]
            name = str(path.relative_to(_ROOT))
            yield pytest.param(path, blocks, id=name, marks=[*marks, *([pytest.mark.slow] if name in _SLOW else [])])


@pytest.mark.slow
@pytest.mark.parametrize(("path", "blocks"), list(_files_that_run()))
def test_snippets_run(
    path: Path, blocks: list[Block], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("LAKEWARDEN_")]:
        monkeypatch.delenv(name)
    names: dict[str, object] = {"__name__": "snippet"}
    for block in blocks:
        if block.language == "console":
            _run_commands(block, path, capsys)
        else:
            # The newlines in front make a traceback point at the line of the document.
            exec(compile("\n" * (block.line - 1) + block.text, str(path), "exec"), names)


def _run_commands(block: Block, path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each command in this process, as tests/cli runs them: starting a program for each takes longer than what they do."""
    for offset, line in enumerate(block.text.splitlines()):
        if line.startswith("$ "):
            program, *arguments = shlex.split(line.removeprefix("$ "), comments=True)
            assert program == "lakewarden"
            with pytest.raises(SystemExit) as ended:
                main(arguments)
            out, err = capsys.readouterr()
            assert ended.value.code in (0, None), f"{path.name}:{block.line + offset}: {line}\n{out}{err}"


_OF_THE_HOUSE = "house.md"  # counted anew from all modules, as by tests/test_house.py


@pytest.mark.parametrize(
    "page", [pytest.param(page, marks=[pytest.mark.slow] * (page.name == _OF_THE_HOUSE), id=page.name) for page in PAGES]
)
def test_reference_is_what_the_code_says(page: Path) -> None:
    text = PAGES[page].text()
    if os.environ.get("UPDATE"):
        page.write_text(text)
    assert page.read_text() == text, "run `make docs`, or this test with UPDATE=1"


@pytest.mark.parametrize("path", _FILES, ids=lambda path: str(path.relative_to(_ROOT)))
def test_links_lead_somewhere(path: Path) -> None:
    targets = _LINK.findall(path.read_text())
    assert [target for target in targets if not (path.parent / target).exists()] == []


def test_every_picture_is_shown_and_small() -> None:
    shown = {(path.parent / target).resolve() for path in _FILES for target in _LINK.findall(path.read_text())}
    pictures = {*(_ROOT / "docs" / "images").glob("*.png")}
    assert pictures - shown == set()
    assert [path.name for path in pictures if path.stat().st_size > _LARGEST_PICTURE] == []


def test_every_page_is_reached_from_the_index() -> None:
    indexes = {_ROOT / "docs" / "README.md", _ROOT / "docs" / "decisions" / "README.md"}
    linked = {(index.parent / target).resolve() for index in indexes for target in _LINK.findall(index.read_text())}
    assert {*(_ROOT / "docs").rglob("*.md")} - linked - {_ROOT / "docs" / "README.md"} == set()


def test_a_decision_that_is_superseded_names_one_that_is_there() -> None:
    found = decisions()
    assert len({one.number for one in found}) == len(found)
    for one in found:
        assert one.status.startswith("in force") or _LINK.search(one.status), one
    assert {one.number for one in found} >= set(FIRST)


def test_readme_begins_with_the_two_commands() -> None:
    first = _blocks((_ROOT / "README.md").read_text())[0]
    assert first.language == "sh"
    assert [line.partition("#")[0].strip() for line in first.text.splitlines()] == ["make demo", "make test"]
