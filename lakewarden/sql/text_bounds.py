"""The bounds of a text, checked before anything is parsed: parsing takes time in this process, where nothing can interrupt it."""

from __future__ import annotations

from dataclasses import dataclass

from lakewarden.base.settings import SqlSettings
from lakewarden.errors import InvalidArgument

_INSTEAD = "send several smaller texts, or write many rows as Arrow with `lake.session(…).table(…).write`"


@dataclass(frozen=True)
class TextBounds:
    """The operator's texts have none."""

    bytes: int
    tokens: int
    statements: int

    @classmethod
    def of(cls, settings: SqlSettings) -> TextBounds:
        return cls(settings.text_bytes, settings.text_tokens, settings.text_statements)

    def check_text(self, text: str) -> None:
        """Raises:
        InvalidArgument: the text is too long.
        """
        size = len(text) if len(text) > self.bytes else len(text.encode(errors="surrogatepass"))
        if size > self.bytes:
            raise _beyond(size, "bytes", self.bytes, "text_bytes")

    def check_tokens(self, tokens: int) -> None:
        if tokens > self.tokens:
            raise _beyond(tokens, "words, values and signs", self.tokens, "text_tokens")

    def check_statements(self, statements: int) -> None:
        if statements > self.statements:
            raise _beyond(statements, "statements", self.statements, "text_statements")


def _beyond(found: int, what: str, most: int, setting: str) -> InvalidArgument:
    return InvalidArgument(f"the text has {found:,} {what}; {most:,} are allowed (sql.{setting}): {_INSTEAD}")
