"""Where a mutation stands: a short text in a definition, compared by its tokens, so that layout and comments do not matter."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

_TOKEN = re.compile(r",(?=\s*[)\]}])|(?P<token>\w+|[<>=!:+*/|&-]=|->|\*\*|//|[^\w\s])")
"""A word or an operator. A comma before a closing bracket is none: the formatter sets and removes it."""

_COMMENT = re.compile(r'''"""(?:\\.|[^\\])*?"""|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|(?P<comment>\#[^\n]*)''', re.DOTALL)
"""Beside comments it matches strings, since a comment's sign in one begins none."""

MODULE = "<module>"
"""The name of all of a module, among those of what it defines."""

_Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


@dataclass(frozen=True)
class Span:
    """Characters of a text, from one to before another."""

    start: int
    end: int


@dataclass(frozen=True)
class Source:
    """The text of a module."""

    text: str

    def spans(self, name: str, find: str) -> list[Span]:
        """Each place within the definitions of this qualified name (`Class.method`) that reads as `find`."""
        sought = [token for token, _ in _tokens(find)]
        return [span for within in self.definitions.get(name, []) for span in self._found(within, sought)]

    def replaced(self, span: Span, replacement: str) -> str:
        """The text with others at a place; further lines are indented as the line in which it begins."""
        line = self.text[self.text.rfind("\n", 0, span.start) + 1 : span.start]
        indent = line[: len(line) - len(line.lstrip())]
        return self.text[: span.start] + replacement.replace("\n", f"\n{indent}") + self.text[span.end :]

    @cached_property
    def definitions(self) -> dict[str, list[Span]]:
        """Functions, classes, and names that modules and classes assign. Of one name there are several where an `if` has them."""
        found: dict[str, list[Span]] = {MODULE: [Span(0, len(self.text))]}
        for name, first, last in _defined(ast.parse(self.text), ""):
            found.setdefault(name, []).append(Span(self._lines[first - 1], self._lines[last]))
        return found

    def _found(self, within: Span, sought: list[str]) -> Iterator[Span]:
        tokens = list(_tokens(_COMMENT.sub(_blank, self.text[within.start : within.end])))
        words = [token for token, _ in tokens]
        for at in range(len(words) - len(sought) + 1):
            if sought and words[at : at + len(sought)] == sought:
                yield Span(within.start + tokens[at][1].start, within.start + tokens[at + len(sought) - 1][1].end)

    @cached_property
    def _lines(self) -> list[int]:
        """Where each line begins, and where the last one ends."""
        starts = [0]
        for line in self.text.splitlines(keepends=True):
            starts.append(starts[-1] + len(line))
        return starts


def _tokens(text: str) -> Iterator[tuple[str, Span]]:
    return ((match["token"], Span(*match.span())) for match in _TOKEN.finditer(text) if match["token"])


def _blank(match: re.Match[str]) -> str:
    return " " * len(match[0]) if match["comment"] else match[0]


def _defined(tree: ast.AST, prefix: str) -> Iterator[tuple[str, int, int]]:
    """Each name with its first and last line."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, _Definition):
            first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            yield f"{prefix}{node.name}", first, node.end_lineno or node.lineno
            yield from _defined(node, f"{prefix}{node.name}.")
        elif isinstance(node, ast.Assign | ast.AnnAssign) and not isinstance(tree, ast.FunctionDef | ast.AsyncFunctionDef):
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                if isinstance(target, ast.Name):
                    yield f"{prefix}{target.id}", node.lineno, node.end_lineno or node.lineno
        elif isinstance(node, ast.stmt | ast.ExceptHandler | ast.match_case):
            yield from _defined(node, prefix)
