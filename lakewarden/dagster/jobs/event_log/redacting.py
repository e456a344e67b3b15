"""Takes a user's id out of what Dagster stores, and leaves everything else as it is.

Dagster's values are stored as JSON. An id can stand only where people or operations put text: in messages, metadata, forms,
partitions. Fields that come from definitions, as names of jobs and steps, are left alone: an id may be a word like `flush`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from urllib.parse import quote, quote_plus

from lakewarden.dagster.jobs.runs.tags import SCOPE
from lakewarden.storage.paths import encode

_FREE = frozenset(
    {
        "message",
        "user_message",
        "stack",  # of errors
        "description",
        "text",  # of metadata, as the next four
        "url",
        "md_str",
        "data",
        "path_value",
        "partition",
        "partition_key",
        "partition_name",
        "skip_reason",
        "cursor",
        "run_config",
        "run_config_data",
    }
)
"""Fields below which every text may name a user."""

_TAGS = frozenset({SCOPE, "dagster/partition"})
"""Tags whose values may; others are words of this project and of Dagster."""

_PATH_OF_METADATA = "PathMetadataEntryData"


class IdSpellings:
    """The spellings of an id: as it is, as in paths, and as in links. `mark` takes its place."""

    def __init__(self, user: str, mark: str) -> None:
        in_paths = {encode(user, folds_case=False), encode(user, folds_case=True)}
        self._spelled = sorted({user, *in_paths, quote(user, safe=""), quote_plus(user)})
        either = "|".join(re.escape(each) for each in self._spelled)
        self._word = re.compile(rf"(?:(?<![0-9A-Za-z_])|(?<=%[0-9A-F]{{2}}))(?:{either})(?![0-9A-Za-z_])")
        self._mark = mark

    @property
    def searched(self) -> Iterator[str]:
        """The spellings as a storage may have them: plain, in JSON, and in JSON inside JSON."""
        for each in self._spelled:
            inner = json.dumps(each)[1:-1]
            yield from {each, inner, json.dumps(inner)[1:-1]}

    def stand_in(self, value: object) -> bool:
        """Whether the id is in one of the texts of a value, or of the values that it is made of."""
        if isinstance(value, str):
            return self._word.search(value) is not None
        if isinstance(value, Mapping):
            return any(self.stand_in(name) or self.stand_in(inner) for name, inner in value.items())
        return isinstance(value, list | tuple) and any(map(self.stand_in, value))

    def without(self, stored: str) -> str:
        """The stored text with the mark for the id: JSON where it may stand, any other text throughout. Unchanged without it."""
        try:
            value = json.loads(stored)
        except ValueError:
            return self._word.sub(self._mark, stored)
        if not isinstance(value, dict | list):
            return self._word.sub(self._mark, stored)
        redacted = self._redacted(value)
        return stored if redacted == value else json.dumps(redacted)

    def _redacted(self, value: object) -> object:
        if isinstance(value, list):
            return [self._redacted(each) for each in value]
        if not isinstance(value, dict):
            return value
        return {name: self._of_field(value, name, inner) for name, inner in value.items()}

    def _of_field(self, whole: dict[str, object], name: str, inner: object) -> object:
        path = name == "path" and whole.get("__class__") == _PATH_OF_METADATA
        if name in _FREE or name in _TAGS or path:
            return self._replaced(inner)
        return self._redacted(inner)

    def _replaced(self, value: object) -> object:
        if isinstance(value, str):
            return self._word.sub(self._mark, value)
        if isinstance(value, list):
            return [self._replaced(each) for each in value]
        if isinstance(value, dict):
            return {name: inner if name == "__class__" else self._replaced(inner) for name, inner in value.items()}
        return value
