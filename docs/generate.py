"""Writes docs/reference/ from the code: `python -m docs.generate`. A test fails when a page is not what this writes."""

from __future__ import annotations

from pathlib import Path

from docs import house
from docs import pages_of_code as code
from docs import pages_of_tests as tests
from docs.decision_index import DECISIONS, index
from docs.markdown import page

_REFERENCE = Path(__file__).parent / "reference"


def pages() -> dict[Path, str]:
    """Every generated page with its text."""
    return {
        DECISIONS / "README.md": page("Decisions", "the pages in docs/decisions", index()),
        _REFERENCE / "access.md": page("Who may do what", "lakewarden/catalog/access.py", code.access()),
        _REFERENCE / "configuration.md": page("Settings", "lakewarden/base/settings.py", code.configuration()),
        _REFERENCE / "damage.md": page("When something is lost", "tests/maintenance/repair/states.py", tests.damage()),
        _REFERENCE / "errors.md": page("Errors", "lakewarden/errors.py", code.errors()),
        _REFERENCE / "flip188.md": page("FLIP-188, line by line", "tests/tables/dynamic/lines.py", tests.flip188_lines()),
        _REFERENCE / "functions.md": page("Functions in queries", "lakewarden/sql/query_engine/tree.py", code.functions()),
        _REFERENCE / "house.md": page("The house", "docs/house.py", house.page()),
        _REFERENCE / "k3.md": page("K3, line by line", "tests/client/k3/lines.py", tests.k3_lines()),
        _REFERENCE / "mutations.md": page("Mutations", "tests/mutations/", tests.mutations()),
        _REFERENCE / "operations.md": page("Operations", "lakewarden/catalog/operations.py", code.operations()),
        _REFERENCE / "values.md": page("Values, door by door", "tests/doors/", tests.values()),
        _REFERENCE / "published-tests.md": page("Published tests", "tests/tables/dynamic/published.py", tests.published_tests()),
        _REFERENCE / "statements.md": page("SQL statements", "lakewarden/sql/statements/", code.statements()),
        _REFERENCE / "templates.md": page("Templates", "lakewarden/ingest/templates/", code.templates()),
        _REFERENCE / "types.md": page("Column types", "lakewarden/catalog/column_types.py", code.column_types()),
        _REFERENCE / "writes.md": page("How statements write", "lakewarden/sql/writing/shapes.py", code.writes()),
    }


def main() -> None:
    for path, text in pages().items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)


if __name__ == "__main__":
    main()
