"""Writes docs/reference/ from the code: `python -m docs.generate`. A test fails when a page is not what this writes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from docs import house
from docs import pages_of_code as code
from docs import pages_of_tests as tests
from docs.decision_index import DECISIONS, index
from docs.markdown import Page

_REFERENCE = Path(__file__).parent / "reference"

PAGES: Mapping[Path, Page] = {
    DECISIONS / "README.md": Page("Decisions", "the pages in docs/decisions", index),
    _REFERENCE / "access.md": Page("Who may do what", "lakewarden/catalog/access.py", code.access),
    _REFERENCE / "configuration.md": Page("Settings", "lakewarden/base/settings.py", code.configuration),
    _REFERENCE / "damage.md": Page("When something is lost", "tests/maintenance/repair/states.py", tests.damage),
    _REFERENCE / "errors.md": Page("Errors", "lakewarden/errors.py", code.errors),
    _REFERENCE / "flip188.md": Page("FLIP-188, line by line", "tests/tables/dynamic/lines.py", tests.flip188_lines),
    _REFERENCE / "functions.md": Page("Functions in queries", "lakewarden/sql/query_engine/tree.py", code.functions),
    _REFERENCE / "house.md": Page("The house", "docs/house.py", house.page),
    _REFERENCE / "k3.md": Page("K3, line by line", "tests/client/k3/lines.py", tests.k3_lines),
    _REFERENCE / "mutations.md": Page("Mutations", "tests/mutations/", tests.mutations),
    _REFERENCE / "operations.md": Page("Operations", "lakewarden/catalog/operations.py", code.operations),
    _REFERENCE / "values.md": Page("Values, door by door", "tests/doors/", tests.values),
    _REFERENCE / "published-tests.md": Page("Published tests", "tests/tables/dynamic/published.py", tests.published_tests),
    _REFERENCE / "statements.md": Page("SQL statements", "lakewarden/sql/statements/", code.statements),
    _REFERENCE / "templates.md": Page("Templates", "lakewarden/ingest/templates/", code.templates),
    _REFERENCE / "types.md": Page("Column types", "lakewarden/catalog/column_types.py", code.column_types),
    _REFERENCE / "writes.md": Page("How statements write", "lakewarden/sql/writing/shapes.py", code.writes),
}
"""By where each lies. Counting and reading is left to when a page is asked for."""


def main() -> None:
    for path, page in PAGES.items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(page.text())


if __name__ == "__main__":
    main()
