"""Every statement stands in the one table, with all that is to be known of it."""

from __future__ import annotations

import inspect
from typing import get_args

import pytest

from lakewarden.sql.bind import handler_of
from lakewarden.sql.specs.statements import STATEMENTS, grammars
from lakewarden.sql.statements import definitions, rows, session, upkeep
from lakewarden.sql.statements.base import Statement

_FAMILIES = (definitions, rows, session, upkeep)


def test_each_class_of_statements_has_its_row() -> None:
    made = {
        found
        for family in _FAMILIES
        for found in vars(family).values()
        if inspect.isclass(found) and issubclass(found, Statement) and found.__module__ == family.__name__
    }
    assert made == set(STATEMENTS)


@pytest.mark.parametrize("statement", STATEMENTS, ids=lambda one: one.__name__)
def test_a_handler_takes_the_statement_and_returns_the_result(statement: type[Statement]) -> None:
    spec = STATEMENTS[statement]
    signature = inspect.signature(handler_of(spec))
    assert list(signature.parameters.values())[1].annotation == statement.__name__
    results = {kind.__name__ for kind in get_args(spec.result)} or {spec.result.__name__}
    assert set(signature.return_annotation.split(" | ")) == results


def test_statements_that_begin_alike_share_a_grammar() -> None:
    read = {words: grammar for found in grammars().values() for words, grammar in found.items()}
    shared = [words for spec in STATEMENTS.values() for words, grammar in spec.begins.items() if read[words] is not grammar]
    assert shared == []
    assert all(words.split()[0] == first for first, found in grammars().items() for words in found)
