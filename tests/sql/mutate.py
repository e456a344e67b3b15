"""Mutations of statements, by a seed: what a typing mistake, a cut text or malice may make of them."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from lakewarden.sql.dialect import Lakewarden

_ODD = (
    *(
        "'",
        '"',
        "(",
        ")",
        ";",
        ",",
        ".",
        "*",
        "=",
        "--",
        "/*",
        "*/",
        "$$",
        "\\",
        "\x00",
        "é",
        "💥",
        "%",
        "::",
        "->",
        "{",
        "[",
        "?",
        "$1",
    ),
    *(
        "NULL",
        "SELECT",
        "FROM",
        "WHERE",
        "AS",
        "1e999",
        "9" * 40,
        "-1",
        "''",
        '""',
        "x'f'",
        "LIMIT",
        "UNION ALL",
        "VALUES",
        "DEFAULT",
    ),
    *(
        "app.t",
        "app.s",
        "_seq",
        "id",
        "system.jobs",
        "read_csv('x')",
        "EXECUTE AS USER 'u' (",
        "now()",
        "CURRENT_USER",
        "range(3)",
    ),
)

Mutation = Callable[[random.Random, list[str], list[str]], list[str]]
"""Words in, words out; the second list holds the words of another statement, to borrow from."""


def mutated(chance: random.Random, statements: Sequence[str]) -> str:
    """One of the statements, changed in one to three places."""
    words = _words(chance.choice(statements))
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        words = chance.choice(_MUTATIONS)(chance, words, _words(chance.choice(statements))) or [""]
    return (" " if chance.random() < 0.95 else "").join(words)


def _words(statement: str) -> list[str]:
    """The words as they stand in the text, quotes included."""
    tokens = Lakewarden().tokenize(statement)
    return [statement[token.start : token.end + 1] for token in tokens]


def _word(chance: random.Random, other: list[str]) -> str:
    return chance.choice(_ODD if chance.random() < 0.4 else other)


def _drop(chance: random.Random, words: list[str], _other: list[str]) -> list[str]:
    place = chance.randrange(len(words))
    return words[:place] + words[place + 1 :]


def _repeat(chance: random.Random, words: list[str], _other: list[str]) -> list[str]:
    place = chance.randrange(len(words))
    return words[:place] + [words[place]] * chance.choice((2, 2, 50)) + words[place + 1 :]


def _swap(chance: random.Random, words: list[str], _other: list[str]) -> list[str]:
    one, other = chance.randrange(len(words)), chance.randrange(len(words))
    swapped = list(words)
    swapped[one], swapped[other] = swapped[other], swapped[one]
    return swapped


def _insert(chance: random.Random, words: list[str], other: list[str]) -> list[str]:
    place = chance.randint(0, len(words))
    return [*words[:place], _word(chance, other), *words[place:]]


def _replace(chance: random.Random, words: list[str], other: list[str]) -> list[str]:
    place = chance.randrange(len(words))
    return [*words[:place], _word(chance, other), *words[place + 1 :]]


def _alike(chance: random.Random, words: list[str], other: list[str]) -> list[str]:
    """Puts another name for a name, another value for a value: what comes of it can often be read, and means nonsense."""
    place = chance.randrange(len(words))
    kind = _kind(words[place])
    choices = [word for word in (*other, *_ODD) if _kind(word) == kind]
    return [*words[:place], chance.choice(choices or words), *words[place + 1 :]]


def _kind(word: str) -> str:
    if word[:1] in "'0123456789-":
        return "value"
    return "name" if word.islower() and word.isidentifier() else "word" if word.isidentifier() else word[:1]


def _cut(chance: random.Random, words: list[str], _other: list[str]) -> list[str]:
    return words[: chance.randint(0, len(words))]


def _scratch(chance: random.Random, words: list[str], _other: list[str]) -> list[str]:
    """Takes a letter out of a word, or puts another in."""
    place = chance.randrange(len(words))
    word = words[place]
    at = chance.randint(0, len(word))
    return [*words[:place], word[:at] + chance.choice(("", "x", "'", "_", "0")) + word[at + 1 :], *words[place + 1 :]]


def _nest(chance: random.Random, words: list[str], _other: list[str]) -> list[str]:
    depth = chance.choice((1, 3, 200))
    return ["("] * depth + words + [")"] * chance.choice((depth, depth, depth - 1))


_MUTATIONS: tuple[Mutation, ...] = (
    *[_alike] * 10,
    _drop,
    _repeat,
    _swap,
    _insert,
    _replace,
    _replace,
    _scratch,
    _scratch,
    _cut,
    _nest,
)
