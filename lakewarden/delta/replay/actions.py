"""The actions of a Delta log, of any writer, as typed values.

Source: Delta's protocol, "Actions". What it does not name is skipped where it is a field, and reported where it is an action.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from io import BytesIO
from typing import Annotated

import msgspec

from lakewarden.errors import Corrupt

_NONE = msgspec.Raw(b"")
_Long = Annotated[int, msgspec.Meta(ge=-(1 << 63), le=(1 << 63) - 1)]
"""As Delta has whole numbers."""


class Vector(msgspec.Struct, frozen=True, rename="camel", gc=False, omit_defaults=True):
    """Where the deletion vector of a file is stored ("Deletion Vector Descriptor Schema"). Sizes in bytes."""

    storage_type: str
    path_or_inline_dv: str
    size_in_bytes: _Long
    cardinality: _Long
    offset: _Long | None = None

    @property
    def id(self) -> str:
        """What tells it from every other vector of the file ("Derived Fields", `uniqueId`)."""
        return f"{self.storage_type}{self.path_or_inline_dv}" + ("" if self.offset is None else f"@{self.offset}")


class AddChanges(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A change file ("Add CDC File"): what the log says of each file that it names."""

    path: str
    partition_values: dict[str, str | None] | None = None
    size: _Long | None = None


class DataFileAction(AddChanges, frozen=True):
    """The same of a data file, and more."""

    data_change: bool = True
    deletion_vector: Vector | None = None

    @property
    def vector_id(self) -> str:
        """Empty without a vector."""
        return "" if self.deletion_vector is None else self.deletion_vector.id


class AddFile(DataFileAction, frozen=True):
    """A live file ("Add File and Remove File"). Times in milliseconds since the epoch."""

    modification_time: _Long | None = None
    stats: str | None = None
    tags: dict[str, str | None] | None = None
    base_row_id: _Long | None = None
    default_row_commit_version: _Long | None = None
    clustering_provider: str | None = None


class RemoveFile(DataFileAction, frozen=True):
    """A file that is live no more (the same section)."""

    deletion_timestamp: int | None = None


class Protocol(msgspec.Struct, frozen=True, rename="camel"):
    """Which readers and writers a table asks for ("Protocol Evolution")."""

    min_reader_version: int
    min_writer_version: int
    reader_features: tuple[str, ...] | None = None
    writer_features: tuple[str, ...] | None = None


class Metadata(msgspec.Struct, frozen=True, rename="camel"):
    """What a table says of itself ("Change Metadata")."""

    id: str | None = None
    name: str | None = None
    description: str | None = None
    schema_string: str | None = None
    partition_columns: tuple[str, ...] = ()
    configuration: dict[str, str | None] = {}
    created_time: int | None = None

    def property(self, name: str) -> str:
        """A property of the table; empty where it is not set."""
        return self.configuration.get(name) or ""

    def says(self, name: str) -> bool:
        """Whether that property is true."""
        return self.property(name).lower() == "true"


class Transaction(msgspec.Struct, frozen=True, rename="camel"):
    """How far an application is ("Transaction Identifiers")."""

    app_id: str
    version: int


class DomainMetadata(msgspec.Struct, frozen=True):
    """A feature's own text ("Domain Metadata")."""

    domain: str
    configuration: str | None = None
    removed: bool = False


class Sidecar(msgspec.Struct, frozen=True, rename="camel"):
    """A file with a part of a checkpoint ("Sidecar File Information")."""

    path: str
    size_in_bytes: int | None = None


class LogAction(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """One line of a commit, which holds one action. `commit_info` is parsed when it is first read."""

    add: AddFile | None = None
    remove: RemoveFile | None = None
    cdc: AddChanges | None = None
    protocol: Protocol | None = None
    meta_data: Metadata | None = None
    txn: Transaction | None = None
    domain_metadata: DomainMetadata | None = None
    sidecar: Sidecar | None = None
    commit_info: msgspec.Raw = _NONE
    checkpoint_metadata: msgspec.Raw = _NONE


NAMES = frozenset(LogAction.__struct_encode_fields__)
"""The actions that Delta's protocol names."""

_MOST_KEPT = 1 << 20
"""Bytes of a text up to which its actions are kept: those of a larger one are read again each time, since they take several
times its memory."""

_decode = msgspec.json.Decoder(LogAction).decode
_names = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_nothing = LogAction()
_KNOWN: frozenset[str] = frozenset()


@dataclass(frozen=True)
class CommitActions:
    """A commit that was read whole."""

    version: int
    actions: Iterable[LogAction]
    """Iterated as often as needed."""
    digest: str
    """SHA-256 of its text."""
    unknown: frozenset[str]
    """Actions that Delta's protocol does not name."""

    @cached_property
    def info(self) -> dict[str, object]:
        """Its `commitInfo`; empty where its writer left none."""
        found = next((bytes(each.commit_info) for each in self.actions if each.commit_info), b"{}")
        info = msgspec.json.decode(found)
        return info if isinstance(info, dict) else {}


class TornText(Corrupt):
    """A commit is empty, cut off, or no JSON."""


def read_commit(version: int, text: bytes) -> CommitActions:
    """Reads the text of one commit.

    Raises:
        TornText: it is empty, or a line of it is not a JSON object.
        Corrupt: an action lacks what Delta's protocol requires, or is nested deeper than a reader can follow.
    """
    what = f"commit {version}"
    actions, unknown, is_empty = [], set[str](), True
    for action, names in _lines(what, text):
        if len(text) <= _MOST_KEPT:
            actions.append(action)
        unknown |= names
        is_empty = False
    if is_empty:
        raise TornText(f"{what} is empty")
    return CommitActions(version, tuple(actions) or _TextActions(what, text), sha256(text).hexdigest(), frozenset(unknown))


def read_compaction(version: int, name: str, text: bytes) -> CommitActions:
    """Reads the text of a compaction that ends with that version. It has no digest. Raises as `read_commit`."""
    actions = _TextActions(name, text) if len(text) > _MOST_KEPT else tuple(read_actions(name, text))
    return CommitActions(version, actions, "", frozenset())


@dataclass(frozen=True)
class _TextActions:
    """The actions of a long text, of which none is kept."""

    what: str
    text: bytes

    def __iter__(self) -> Iterator[LogAction]:
        return read_actions(self.what, self.text)


def is_torn(text: bytes) -> bool:
    """Whether a commit is not whole: it is empty, or a line of it is no JSON. One that is whole and wrong is not torn."""
    try:
        read_commit(0, text)
    except TornText:
        return True
    except Corrupt:
        return False
    return False


def read_actions(what: str, text: bytes) -> Iterator[LogAction]:
    """The actions of another text of a log, which `what` names: a compaction, or a checkpoint in JSON. Raises as
    `read_commit`."""
    return (action for action, _ in _lines(what, text))


_OF_TEXTS = ("partitionValues", "tags", "configuration")
_EXACT = 2**53
"""Below it, each whole number is one of DOUBLE's."""


def _coerced(line: bytes) -> bytes:
    """An action of a writer who leaves numbers and flags where Delta has texts, or whole numbers as 1.5e12, in Delta's own form:
    other readers, Spark and delta-rs among them, take the one for the other."""
    said = msgspec.json.decode(line)
    for action in said.values() if isinstance(said, dict) else ():
        for name, value in action.items() if isinstance(action, dict) else ():
            if name in _OF_TEXTS and isinstance(value, dict):
                action[name] = {key: _text(each) for key, each in value.items()}
            elif isinstance(value, float) and value.is_integer() and abs(value) < _EXACT:
                action[name] = int(value)
    return msgspec.json.encode(said)


def _text(value: object) -> object:
    return msgspec.json.encode(value).decode() if isinstance(value, bool | int | float) else value


def _lines(what: str, text: bytes) -> Iterator[tuple[LogAction, frozenset[str]]]:
    """Each action, and the names of it that are unknown."""
    if b"\r" in text:  # no string of JSON has it, and readers end lines with it, alone or before a line feed
        text = text.replace(b"\r", b"\n")
    for line in BytesIO(text):  # which copies no text
        if line.isspace():
            continue
        try:
            if not line.isascii():
                line.decode()  # what is parsed later, and what is passed over, has to be text too
            try:
                action = _decode(line)
            except msgspec.ValidationError:
                action = _decode(_coerced(line))
            unknown = frozenset(_names(line).keys() - NAMES) if action == _nothing else _KNOWN
        except msgspec.ValidationError as error:
            raise Corrupt(f"{what} has an action that is not as Delta's protocol has it: {error}") from error
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise TornText(f"{what} is not JSON: {error}") from error
        except RecursionError as error:
            raise Corrupt(f"{what} is nested too deep to be an action of Delta's") from error
        yield action, unknown
