"""The figures of the house: rooms, layers, modules, names, imports. `make house` writes docs/reference/house.md from them."""

from __future__ import annotations

import ast
import re
import tomllib
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

_ROOT = Path(__file__).parent.parent
_PACKAGE = _ROOT / "lakewarden"

_MANY_PARAMETERS = 7

_TEXT_OR_COMMENT = re.compile(r"""(\"{3}|'{3}|"|')(?s:\\.|.)*?\1|#.*""")
"""The tokenizer takes ten times as long."""


@dataclass(frozen=True)
class House:
    """What of `lakewarden/` can be counted."""

    rooms: int
    """Packages at the top."""
    layers: int
    packages: int
    modules: int
    lines: int
    longest_chain: int
    """Modules one behind the other, each of which imports the next one, also lazily or for types."""
    shared_names: int
    """Names of public classes that stand more than once."""
    largest_package: int
    """Modules, without `__init__`."""
    longest_module: int
    """Lines."""
    many_parameters: int
    """Functions with more than seven, without `self`."""
    comments: float
    """For each thousand lines, those at the end of a line counted."""


@dataclass(frozen=True)
class _Module:
    lines: int
    comments: int
    imports: set[str]
    """Names of other modules."""
    classes: list[str]
    """Public ones."""
    many_parameters: int


@cache
def house() -> House:
    """Counts."""
    written = (path for path in sorted(_PACKAGE.rglob("*.py")) if not path.stem.endswith("_pb2"))  # those are generated
    sources = {_name(path): path.read_text() for path in written}
    modules = {name: _module(name, text, sources.keys()) for name, text in sources.items()}
    packages = {_name(path) for path in _PACKAGE.rglob("__init__.py")}
    lines = sum(one.lines for one in modules.values())
    return House(
        rooms=sum(name.count(".") == 1 for name in packages),
        layers=_layers(),
        packages=len(packages),
        modules=len(modules),
        lines=lines,
        longest_chain=_longest_chain({name: one.imports for name, one in modules.items()}),
        shared_names=sum(count > 1 for count in Counter(name for one in modules.values() for name in one.classes).values()),
        largest_package=max(Counter(name.rpartition(".")[0] for name in modules.keys() - packages).values()),
        longest_module=max(one.lines for one in modules.values()),
        many_parameters=sum(one.many_parameters for one in modules.values()),
        comments=round(1000 * sum(one.comments for one in modules.values()) / lines, 1),
    )


def page() -> Iterator[str]:
    """The lines of docs/reference/house.md below its title."""
    found = house()
    yield "How large the library is, and how it hangs together. `tests/test_house.py` holds bounds of these."
    yield from ("", "| figure | now |", "| --- | ---: |")
    yield f"| rooms; layers; packages | {found.rooms}; {found.layers}; {found.packages} |"
    yield f"| modules; lines | {found.modules:,}; {found.lines:,} |"
    yield f"| longest chain of imports, lazy ones and those for types too | {found.longest_chain} |"
    yield f"| names of public classes that stand more than once | {found.shared_names} |"
    yield f"| modules of the largest package; lines of the longest module | {found.largest_package}; {found.longest_module} |"
    yield f"| functions with more than {_MANY_PARAMETERS} parameters | {found.many_parameters} |"
    yield f"| comments in a thousand lines | {found.comments} |"


def _name(path: Path) -> str:
    parts = path.relative_to(_ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _layers() -> int:
    contracts = tomllib.loads((_ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    return next(len(one["layers"]) for one in contracts if one.get("containers") == ["lakewarden"])


def _module(name: str, text: str, names: Collection[str]) -> _Module:
    """Of one module, whose tree goes with the call: to keep those of all takes the collector longer than to parse them."""
    tree = ast.parse(text)
    nodes = list(ast.walk(tree))
    return _Module(
        lines=text.count("\n"),
        comments=sum(found[1] is None for found in _TEXT_OR_COMMENT.finditer(text)),
        imports=set(_imports(nodes, names)) - {name},
        classes=[node.name for node in tree.body if isinstance(node, ast.ClassDef) and not node.name.startswith("_")],
        many_parameters=sum(_parameters(node) > _MANY_PARAMETERS for node in nodes),
    )


def _imports(nodes: Iterable[ast.AST], names: Collection[str]) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                full = f"{node.module}.{alias.name}"
                yield from [full] if full in names else [node.module] if node.module in names else []
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in names)


def _longest_chain(imports: Mapping[str, set[str]]) -> int:
    """Nothing stands in a circle (`make lint`), but for packages whose `__init__` gives names of their own modules."""
    lengths: dict[str, int] = {}

    def length(name: str) -> int:
        if name not in lengths:
            lengths[name] = 1  # where a chain comes back
            lengths[name] = 1 + max(map(length, sorted(imports[name])), default=0)
        return lengths[name]

    return max(map(length, sorted(imports)))


def _parameters(node: ast.AST) -> int:
    if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return 0
    every = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
    return sum(one.arg not in ("self", "cls") for one in every)
