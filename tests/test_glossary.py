"""docs/glossary.md names modules that exist, and each word once."""

from __future__ import annotations

import re
from pathlib import Path

_ROOT = Path(__file__).parent.parent
_ROWS = re.findall(r"^\| (.+?) \| .+ \| `(.+?)` \|$", (_ROOT / "docs" / "glossary.md").read_text(), re.MULTILINE)


def test_each_word_is_there_once() -> None:
    words = [word for word, _ in _ROWS]
    assert len(words) > 40
    assert len(set(words)) == len(words)


def test_each_word_is_found_where_the_page_says() -> None:
    missing = [
        module for _, module in _ROWS if not any((_ROOT / "lakewarden" / path).exists() for path in (f"{module}.py", module))
    ]
    assert missing == []
