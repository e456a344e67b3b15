"""Every statement has its row, with all that is to be known of it."""

from __future__ import annotations

import inspect
from typing import get_args

from lakewarden.sql.parse import _OBJECTS, FAMILIES, family, statement_specs
from lakewarden.sql.results import AffectedRows, Events, ResultRows, StartedJobs, StatementDone
from lakewarden.sql.statement import Statement


def test_each_class_of_statements_has_its_row_which_its_handler_takes() -> None:
    made = {
        found
        for name in FAMILIES
        for found in vars(family(name)).values()
        if inspect.isclass(found) and issubclass(found, Statement) and found.__module__ == family(name).__name__
    }
    specs = list(statement_specs())
    assert {found for found in made if not found.__subclasses__()} == {spec.kind for spec in specs}
    assert all(spec.kind.spec is spec for spec in specs)
    results = {kind for spec in specs for kind in get_args(spec.result) or (spec.result,)}
    assert results == {StatementDone, StartedJobs, ResultRows, AffectedRows, Events}


def test_a_family_is_imported_with_the_words_that_it_reads() -> None:
    for name, firsts in FAMILIES.items():
        assert {words.split()[0] for words in getattr(family(name), "GRAMMARS", {})} == set(firsts), name


def test_each_statement_begins_with_words_that_a_family_reads_and_no_two_read_the_same() -> None:
    read = [words for name in FAMILIES for words in getattr(family(name), "GRAMMARS", {})]
    assert len(read) == len(set(read))
    assert {spec.words for spec in statement_specs()} <= set(read)
    created = {words.split()[-1] for words in read if words.startswith("CREATE ")}
    assert created - {"REPLACE"} == set(_OBJECTS)
