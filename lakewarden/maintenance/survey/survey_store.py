"""What a warehouse keeps of surveys: for each place the last look, as Arrow, and its sums for the page of the fleet.

A row has its table as JSON. So a later release reads what an earlier one kept, as far as it goes: a field that is missing has
its default, one that is not known is left out. An object that cannot be read counts as if it were not there: the next look is a
first one.

`surveys/<place>/<number>-<id>/<n>-of-<count>`, one directory a look at a place. A look counts if all of its objects are there,
the highest number before others: so whoever dies in the middle, or loses a race, leaves the look before it, or a whole one, and
never a mixture. Numbers, not times, decide, since clocks go wrong. All of it is derived: whoever deletes it pays a first look
again. `place` is a keyed hash, since a place's name may hold a user's.

Users' ids are kept as keyed hashes: paths of others' tables may be named after them. A part of a path is a user's if it is, plain
or as URIs and our own paths spell it, the id of one whom the warehouse knows or once erased. `<column>=<value>` counts by its
value.
"""

from __future__ import annotations

import dataclasses
import logging
import re
import zlib
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from functools import lru_cache, partial
from itertools import chain, islice
from typing import Any, cast
from urllib.parse import unquote

import msgspec
import pyarrow as pa

from lakewarden.base.arrays import stream_bytes
from lakewarden.base.clock import NewId, to_millis
from lakewarden.catalog.state.fleet_days import SurveySums, WorstTable, keep_survey_sums, survey_sum_keys
from lakewarden.delta.examination.kept_log import texts_of
from lakewarden.delta.examination.kinds import Verdict
from lakewarden.maintenance.planning.users import known_users
from lakewarden.maintenance.survey.last_look import LastLook, SeenTable, SeenTables, TableDigest
from lakewarden.maintenance.survey.ranking import rank
from lakewarden.maintenance.survey.table_survey import TableSurvey
from lakewarden.storage.objects import Missing, ObjectStore
from lakewarden.storage.paths import without_id
from lakewarden.tables.warehouse import Warehouse

Hide = Callable[[str], str]

_LOG = logging.getLogger(__name__)

TABLES = 10_000
"""Of an object: some ten megabytes."""

FORMAT = "3"
"""One with another number is not read."""

_NAME_DIGITS = 32
_ID_DIGITS = 12
_WORST = 10

_survey = msgspec.json.Decoder(TableSurvey).decode


def name_in(warehouse: Warehouse, path: str) -> str:
    """The keyed hash under which a place or a table is kept, whoever may be named in its path."""
    return warehouse.erasures.derived_key("survey", path)[:_NAME_DIGITS]


def last_look(warehouse: Warehouse, place: str) -> LastLook:
    """What is kept of a place; without tables where nothing is. One listing, and a request for each 10,000 tables."""
    parts = kept_look(warehouse.state, name_in(warehouse, place))
    begin = LastLook(name_of=partial(name_in, warehouse), shown=hidden_names(warehouse) if parts else str)
    rules, tables = set[str](), SeenTables()
    while parts:
        try:
            rule, found = decoded(parts.pop(0))  # as bytes and as tables, no more than one part at once
        except (pa.ArrowException, msgspec.MsgspecError, ValueError, KeyError, TypeError, OSError) as error:
            _LOG.warning("what is kept of a survey cannot be read, and is looked at anew: %s", error)
            return begin
        rules.add(rule)
        for key, one in found.items():
            tables.put(key, one)
    return dataclasses.replace(begin, rule=rules.pop() if len(rules) == 1 else "", tables=tables)


def keep(warehouse: Warehouse, place: str, look: LastLook, now: datetime) -> SurveySums:
    """Keeps a look at a place, and its sums, which it returns; replaces the one before.

    An erasure may begin while this writes: whoever is being erased, or was, is looked for behind the write again. So either the
    erasure finds what was written, or this finds the erasure.
    """
    name = name_in(warehouse, place)
    hide = hidden_names(warehouse)
    items = ((key, _shown(one, hide)) for key, one in look.tables.items())
    sums = PlaceSums()
    count = max(1, -(-len(look.tables) // TABLES))
    parts = (encoded(look.rule, sums.with_all(dict(islice(items, TABLES)))) for _ in range(count))
    keys = keep_look(warehouse.state, name, parts, count, warehouse.new_id)
    made = sums.of(hide(place), now, name[:_ID_DIGITS])
    keys.append(keep_survey_sums(warehouse.state, name, made))
    erased = HiddenNames((), warehouse.erasures.mark, warehouse.erasures.erased())
    remove_naming(warehouse.state, keys, partial(_names, lambda text: erased.in_sentence(erased(text))))
    return made


def forget_user(warehouse: Warehouse, user: str, mark: str) -> None:
    """Removes what is kept of surveys and names the user, in any spelling: of those who were known when it was kept, nothing
    does."""
    names, state = HiddenNames((user,), lambda _: mark), warehouse.state

    def hide(text: str) -> str:
        """Words first: in a sentence, too, and with spaces. Then what other programs escape in their own ways."""
        return names.in_sentence(without_id(text, user, mark))

    remove_naming(state, [*state.keys(ROOT), *survey_sum_keys(state)], partial(_names, hide))


def hidden_names(warehouse: Warehouse) -> HiddenNames:
    """The users whom the warehouse knows, and those who were erased."""
    erasures = warehouse.erasures
    return HiddenNames({one.user for one in known_users(warehouse)}, erasures.mark, erasures.erased())


# The form of an object: a stream of Arrow, whose schema's metadata say what holds for all of its tables.
def encoded(rule: str, tables: Mapping[str, SeenTable]) -> bytes:
    """These tables, by name, as one object."""
    columns: dict[str, Any] = {
        "name": pa.array(tables, pa.string()),
        "log_digest": pa.array([one.digest.log for one in tables.values()], pa.binary()),
        "data_digest": pa.array([one.digest.data for one in tables.values()], pa.binary()),
        "survey": pa.array([msgspec.json.encode(one.survey) for one in tables.values()], pa.binary()),
        "log": pa.array([one.log for one in tables.values()], pa.binary()),
    }
    return stream_bytes(pa.table(columns).replace_schema_metadata({"format": FORMAT, "rule": rule}))


def decoded(data: bytes) -> tuple[str, dict[str, SeenTable]]:
    """The rule and the tables of an object. Raises what Arrow and msgspec raise where it cannot be read, and ValueError."""
    table = _table(data)
    said = table.schema.metadata or {}
    if said.get(b"format") != FORMAT.encode():
        raise ValueError(f"its format is {said.get(b'format')!r}, and this release reads {FORMAT}")
    columns = ("name", "log_digest", "data_digest", "log")
    names, log_digests, data_digests, logs = (cast("list[Any]", table.column(name).to_pylist()) for name in columns)
    seen = map(SeenTable, _surveys(table), map(TableDigest, log_digests, data_digests), logs)
    return said.get(b"rule", b"").decode(), dict(zip(names, seen, strict=True))


def _surveys(table: pa.Table) -> Iterator[TableSurvey]:
    return map(_survey, cast("list[bytes]", table.column("survey").to_pylist()))


def _shown(one: SeenTable, hide: HiddenNames) -> SeenTable:
    """As it is kept. Of a log that names somebody nothing is."""
    survey = hide.of(one.survey)
    is_named = survey != one.survey or any(hide(text) != text for text in texts_of(one.log))
    return dataclasses.replace(one, survey=survey, log=b"" if is_named else one.log)


def _names(hide: Hide, data: bytes) -> bool:
    """Whether a text of an object, of a look or of its sums, is to be hidden. What cannot be read may name anybody."""
    with suppress(pa.ArrowException, msgspec.MsgspecError, zlib.error, ValueError, KeyError, TypeError, OSError):
        return any(hide(text) != text for text in (_texts_of_sums if data[:1] == b"{" else _texts_of_look)(data))
    return True


def _texts_of_sums(data: bytes) -> Iterator[str]:
    sums = msgspec.json.decode(data, type=SurveySums)
    yield sums.place
    for each in chain(*sums.worst.values()):
        yield from (each.path, each.detail)


def _texts_of_look(data: bytes) -> Iterator[str]:
    table = _table(data)
    for one in _surveys(table):
        yield from (one.path, one.error, *(each.detail for each in one.damage))
    for log in cast("list[bytes]", table.column("log").to_pylist()):
        yield from texts_of(log)


def _table(data: bytes) -> pa.Table:
    with pa.ipc.open_stream(pa.py_buffer(data)) as reader:
        table = reader.read_all()
    table.validate()
    return table


# The sums of a look.
_BAD: Sequence[Verdict] = ("damaged", "unreadable")
_SUMMED = ("files", "bytes", "small_files", "dead_bytes", "unnamed_files")


class PlaceSums:
    """What the page of the fleet shows of a place, summed up table by table."""

    def __init__(self) -> None:
        self._verdicts: Counter[str] = Counter()
        self._kinds: Counter[str] = Counter()
        self._figures: Counter[str] = Counter()
        self._worst: list[TableSurvey] = []

    def with_all(self, tables: dict[str, SeenTable]) -> dict[str, SeenTable]:
        """Adds these, and returns them."""
        for one in (each.survey for each in tables.values()):
            self._verdicts[one.verdict] += 1
            self._kinds.update({each.kind for each in one.damage})
            self._figures.update({name: getattr(one, name) or 0 for name in _SUMMED})
            if one.verdict in _BAD:
                self._worst = sorted([*self._worst, one], key=rank)[:_WORST]
        return tables

    def of(self, place: str, now: datetime, place_id: str) -> SurveySums:
        worst: dict[str, list[WorstTable]] = {}
        for one in self._worst:
            kinds, detail = Counter[str](each.kind for each in one.damage), one.damage[0].detail if one.damage else one.error
            worst.setdefault(one.verdict, []).append(WorstTable(one.path, dict(kinds), detail[:200]))
        figures = {name: self._figures[name] for name in _SUMMED}
        return SurveySums(
            place, to_millis(now), dict(self._verdicts), dict(self._kinds), worst=worst, place_id=place_id, **figures
        )


ROOT = "surveys"

_NAME = re.compile(rf"({ROOT}/[^/]+/(\d{{12}})-[^/]+)/(\d+)-of-(\d+)")
_ATTEMPTS = 5
"""How often a reader begins again whose look was replaced while it was read."""


def kept_look(state: ObjectStore, place: str) -> list[bytes]:
    """The objects of the newest whole look at a place, in order; empty where none is kept."""
    for _ in range(_ATTEMPTS):
        whole = _whole(state.keys(f"{ROOT}/{place}"))
        if not whole:
            return []
        with suppress(Missing):  # a newer look came while this one was read, and removed it
            return [state.get(key) for key in whole[-1]]
    return []


def keep_look(state: ObjectStore, place: str, parts: Iterable[bytes], count: int, new_id: NewId) -> list[str]:
    """Keeps a look of so many parts as the newest, and removes those before it. Returns its keys."""
    before = list(state.keys(f"{ROOT}/{place}"))
    number = 1 + max((int(found[2]) for key in before if (found := _NAME.fullmatch(key))), default=0)
    look = f"{ROOT}/{place}/{number:012d}-{new_id()}"
    keys = [f"{look}/{part}-of-{count}" for part in range(1, count + 1)]
    for key, data in zip(keys, parts, strict=True):
        state.create(key, data)
    state.delete(before)
    return keys


def remove_naming(state: ObjectStore, keys: Iterable[str], is_named: Callable[[bytes], bool]) -> None:
    """Removes those of these objects that name somebody, of unfinished looks too.

    Removed, and not changed: of two erasures at once, each would write back whom the other had taken out. A look without one of
    its objects does not count.
    """
    for key in keys:
        with suppress(Missing):
            if is_named(state.get(key)):
                state.delete([key])


def _whole(keys: Iterable[str]) -> list[list[str]]:
    """The keys of each whole look, the newest last."""
    found = defaultdict[tuple[str, str, str], dict[int, str]](dict)
    for key in keys:
        if name := _NAME.fullmatch(key):
            found[name[2], name[1], name[4]][int(name[3])] = key
    return [
        [parts[number] for number in sorted(parts)] for (_, _, count), parts in sorted(found.items()) if len(parts) == int(count)
    ]


_PART = re.compile(r"[^/]+")
_PATH = re.compile(r"[^\s'\",;()]*/[^\s'\",;()]*")
"""In a sentence."""
_REMEMBERED = 100_000
"""Parts of paths, of which names of files are the most, and seen once."""

_ESCAPE = re.compile(rb"!([0-9a-f]{2})")


class HiddenNames:
    """Hides the ids of these users, and those with one of these keyed hashes. Remembers parts that it has seen: paths share
    their beginnings."""

    def __init__(self, users: Collection[str], mark: Callable[[str], str], erased: Collection[str] = ()) -> None:
        self._users = frozenset(users)
        self._mark = mark
        self._erased = frozenset(erased)
        self._part = lru_cache(_REMEMBERED)(self._hidden)

    def __call__(self, path: str) -> str:
        """A path or a URI."""
        return _PART.sub(lambda found: self._part(found[0]), path)

    def in_sentence(self, text: str) -> str:
        """A sentence: in the paths there alone, since ids may be numbers or common words."""
        return _PATH.sub(lambda found: self(found[0]), text)

    def of(self, survey: TableSurvey) -> TableSurvey:
        """All texts of a table that may have a path in them."""
        damage = tuple(replace(each, detail=self.in_sentence(each.detail)) for each in survey.damage)
        return replace(survey, path=self(survey.path), error=self.in_sentence(survey.error), damage=damage)

    def _hidden(self, part: str) -> str:
        """The part with a hash in place of its user."""
        column, equals, value = part.rpartition("=")
        for before, name in {("", part), (column + equals, value)}:
            for user in _spelled(name):
                if user in self._users or (self._erased and self._mark(user) in self._erased):
                    return before + self._mark(user)
        return part


def _spelled(name: str) -> Iterator[str]:
    yield name
    if "%" in name:
        yield unquote(name)
    if "!" in name:
        yield _ESCAPE.sub(lambda found: bytes([int(found[1], 16)]), name.encode()).decode(errors="replace")
