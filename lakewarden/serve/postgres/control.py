"""The statements that are about the connection: BEGIN and its kin, cursors, SET, SHOW, RESET, DISCARD, DEALLOCATE."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import pyarrow as pa

from lakewarden.errors import BadSyntax, Unsupported
from lakewarden.serve.postgres.problems import NO_PORTAL, PORTAL_THERE, ProtocolError
from lakewarden.serve.postgres.state import CommandOutcome, Portal, State
from lakewarden.sql.dialect import Value
from lakewarden.sql.parse import Single, singles
from lakewarden.sql.results import ResultRows
from lakewarden.sql.session_block import NoBlock, SessionBlock

Control = Callable[[State, Sequence[str]], CommandOutcome]
"""Takes the statement's words as they are written."""

_OURS = ("FRESHNESS", "TABLE-STORAGE", "'TABLE-STORAGE", "TABLE")
"""What SET of Lakewarden's own begins with."""
_METADATA = "COMMIT_METADATA"
_NOT_SERVED = ("COPY", "DECLARE", "LISTEN", "NOTIFY", "LOCK", "PREPARE")
_INSTEAD = {
    "COPY": "write rows by INSERT or by `lakewarden load`, and read them by SELECT",
    "LISTEN": "follow /v1/subscribe over HTTP",
}
_NO_BLOCK = ("there is no transaction in progress",)
"""What PostgreSQL says of COMMIT and ROLLBACK there, which drivers send when they put a connection back."""
_MODE = r"(ISOLATION LEVEL (READ COMMITTED|READ UNCOMMITTED|REPEATABLE READ|SERIALIZABLE)|READ (ONLY|WRITE)|(NOT )?DEFERRABLE)"
_MODES = re.compile(rf"({_MODE}( ,)?( |$))*")
"""The modes of a transaction, as words in upper case with a blank between them."""
_SPOKEN = {
    ("TIME", "ZONE"): "TimeZone",
    ("TRANSACTION", "ISOLATION", "LEVEL"): "transaction_isolation",
    ("SESSION", "AUTHORIZATION"): "session_authorization",
}


def control_of(single: Single, state: State) -> Callable[[], CommandOutcome] | None:
    """What runs the statement, if it is about the connection; None for one that the SQL session runs."""
    words = _words(single)
    upper = [word.upper() for word in words]
    found = _STATEMENTS.get(upper[0])
    if found is None or (upper[0] == "SHOW" and not _is_variable(upper[1:], state)) or _is_ours(upper):
        return None
    return lambda: found(state, words[1:])


def _is_variable(words: Sequence[str], state: State) -> bool:
    return bool(words) and (tuple(words) in _SPOKEN or (len(words) == 1 and state.variables.knows(words[0])))


def _is_ours(upper: Sequence[str]) -> bool:
    """Also of a variable whose SHOW and RESET the session knows."""
    named = upper[2:] if upper[1:2] == ["SESSION"] else upper[1:]
    if not named:
        return False
    return named[0] == _METADATA or (upper[0] == "SET" and upper[1].startswith(_OURS))


def _words(single: Single) -> list[str]:
    """The words as they are written; sqlglot makes one of some pairs, as of START TRANSACTION."""
    return [word for token in single.tokens for word in (token.split() if token[:1].isalpha() else [token])] or [""]


def status_of(block: SessionBlock) -> bytes:
    """The letter for it in what says that the server is ready."""
    return b"E" if block.failed else b"T" if block.open else b"I"


def _begin(state: State, words: Sequence[str]) -> CommandOutcome:
    state.block.check()
    if state.block.open:
        return CommandOutcome("BEGIN", notices=("there is already a transaction in progress",))
    upper = _meant(words)
    _check_modes(upper)
    state.block.begin(read_only=_says_read_only(upper) or state.variables.read_only)
    return CommandOutcome("BEGIN")


def _commit(state: State, words: Sequence[str]) -> CommandOutcome:
    return _ended(state, _meant(words), "COMMIT", state.session.commit)


def _roll_back(state: State, words: Sequence[str]) -> CommandOutcome:
    upper = _meant(words)
    if upper[:1] == ["TO"]:
        state.block.roll_back_to(words[-1])
        return CommandOutcome("ROLLBACK")
    return _ended(state, upper, "ROLLBACK", state.block.roll_back)


def _ended(state: State, words: Sequence[str], name: str, end: Callable[[], str]) -> CommandOutcome:
    """Ends the block, and begins the next one where AND CHAIN asks for it: PostgreSQL's has the same modes."""
    chained = words == ["AND", "CHAIN"]
    if words[:1] == ["PREPARED"]:
        raise Unsupported(f"{name} PREPARED is not served: a transaction is one connection's")
    if words and not chained and words != ["AND", "NO", "CHAIN"]:
        raise BadSyntax(f"behind {name}, AND CHAIN or AND NO CHAIN may stand, not {' '.join(words)}")
    if not state.block.open:
        if chained:
            raise NoBlock(f"{name} AND CHAIN works in a block alone: BEGIN first")
        return CommandOutcome(name, notices=_NO_BLOCK)
    read_only = state.block.read_only
    outcome = CommandOutcome(end())
    if chained:
        state.block.begin(read_only=read_only)
    return outcome


def _meant(words: Sequence[str]) -> list[str]:
    """The words in upper case, without those that mean nothing."""
    return [word.upper() for word in words if word.upper() not in ("WORK", "TRANSACTION")]


def _check_modes(words: Sequence[str]) -> None:
    if not _MODES.fullmatch(" ".join(words)):
        raise BadSyntax(f"ISOLATION LEVEL, READ ONLY, READ WRITE or DEFERRABLE is expected, not {' '.join(words)}")


def _save(state: State, words: Sequence[str]) -> CommandOutcome:
    state.block.save(_last(words))
    return CommandOutcome("SAVEPOINT")


def _release(state: State, words: Sequence[str]) -> CommandOutcome:
    state.block.release(_last(words))
    return CommandOutcome("RELEASE")


def _set(state: State, words: Sequence[str]) -> CommandOutcome:
    state.block.check()
    upper = [word.upper() for word in words]
    if "TRANSACTION" in upper[:4]:
        _set_transaction(state, upper)
        return CommandOutcome("SET")
    if upper[:1] in (["SESSION"], ["LOCAL"]):
        words, upper = words[1:], upper[1:]
    if upper[:2] == ["TIME", "ZONE"]:
        name, rest = "TimeZone", words[2:]
    else:
        name, rest = _last(words[:1]), [word for word in words[2:] if word != ","]
    if not rest:
        raise BadSyntax("SET takes a parameter, = or TO, and a value")
    if name.lower() == "search_path":
        state.use(rest)
    elif name.lower() == "names":
        state.variables.write("client_encoding", rest[0])
    else:
        name = state.variables.write(name, " ".join(rest))
    return CommandOutcome("SET", changed=name)


def _set_transaction(state: State, upper: Sequence[str]) -> None:
    modes = upper[upper.index("TRANSACTION") + 1 :]
    if modes[:1] == ["SNAPSHOT"]:
        raise Unsupported("SET TRANSACTION SNAPSHOT is not served: each statement reads what is committed by then")
    _check_modes(modes)
    if upper[0] == "SESSION":
        if "READ" in upper and {"ONLY", "WRITE"} & set(upper):
            state.variables.write("default_transaction_read_only", "on" if _says_read_only(upper) else "off")
    elif "READ" in upper and {"ONLY", "WRITE"} & set(upper):
        state.block.read_only = _says_read_only(upper) and state.block.open


def _says_read_only(words: Sequence[str]) -> bool:
    upper = [word.upper() for word in words]
    return any(pair == ("READ", "ONLY") for pair in pairwise(upper))


def _show(state: State, words: Sequence[str]) -> CommandOutcome:
    name = _SPOKEN.get(tuple(word.upper() for word in words), words[0])
    value = (state.session.namespace or "") if name.lower() == "search_path" else state.variables.read(name)
    if name.lower() == "transaction_read_only" and (state.block.read_only or state.variables.read_only):
        value = "on"
    return CommandOutcome("SHOW", ResultRows(pa.table({name.lower(): [value]}), ("VARCHAR",)))


def _reset(state: State, words: Sequence[str]) -> CommandOutcome:
    state.variables.reset(_last(words))
    if _last(words).upper() == "ALL":
        state.session.forget_settings()
    return CommandOutcome("RESET")


def _discard(state: State, _: Sequence[str]) -> CommandOutcome:
    state.variables.reset("ALL")
    state.session.forget_settings()
    state.forget(None)
    state.portals.clear()
    return CommandOutcome("DISCARD ALL")


def _deallocate(state: State, words: Sequence[str]) -> CommandOutcome:
    name = _last(words)
    state.forget(None if name.upper() == "ALL" else name)
    return CommandOutcome("DEALLOCATE")


# Cursors: portals that DECLARE opens, and that FETCH reads on from. They go forward, over the rows of when they were declared.
_CURSOR = re.compile(
    r'DECLARE\s+("(?:[^"]|"")+"|\w+)\s+(?:(?:BINARY|INSENSITIVE|ASENSITIVE|NO\s+SCROLL)\s+)*'
    r"CURSOR\s+(?:(WITH)\s+HOLD\s+|WITHOUT\s+HOLD\s+)?FOR\s+(?=\S)",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class CursorDeclaration:
    """DECLARE … CURSOR. `held` says that it outlives its block."""

    name: str
    query: Single
    held: bool

    @classmethod
    def of(cls, single: Single) -> CursorDeclaration | None:
        """None for any other statement, and where the cursor would go backward."""
        found = _CURSOR.match(single.text) if single.tokens[0].upper() == "DECLARE" else None
        if found is None:
            return None
        (query,) = singles(single.text[found.end() :])
        name = found[1].strip('"').replace('""', '"') if found[1].startswith('"') else found[1]
        return cls(name, query, held=found[2] is not None)

    def open(self, state: State, outcome: CommandOutcome, values: Sequence[Value]) -> CommandOutcome:
        state.open(self.name, Portal(self.query, values, (), outcome=outcome, held=self.held))
        return CommandOutcome("DECLARE CURSOR")

    def check(self, state: State) -> None:
        """Raises:
        NoBlock: it would end with the statement.
        ProtocolError: there is a cursor of that name.
        """
        if not (self.held or state.block.open):
            raise NoBlock("DECLARE works in a block alone, unless the cursor is WITH HOLD: BEGIN first")
        if self.name in state.portals:
            raise ProtocolError(PORTAL_THERE, f"there is a cursor {self.name!r} already")


def fetched(state: State, words: Sequence[str]) -> tuple[Portal, ResultRows]:
    """The cursor that the words behind FETCH name, and the rows that they mean.

    Raises:
        Unsupported: it would go backward.
        ProtocolError: there is no such cursor.
    """
    portal = state.portal(_last(words))
    how = [word.upper() for word in words[:-1] if word.upper() not in ("FROM", "IN", "FORWARD")]
    if len(how) > 1 or not (how in ([], ["NEXT"], ["ALL"]) or how[0].isdecimal()):
        raise Unsupported("a cursor goes forward: NEXT, a number of rows, or ALL")
    if portal.outcome is None or portal.outcome.rows is None:
        raise ProtocolError(NO_PORTAL, f"{words[-1]!r} is not a cursor")
    most = None if how == ["ALL"] else int(how[0]) if how and how[0].isdecimal() else 1
    return portal, replace(portal.outcome.rows, table=portal.outcome.rows.table.slice(portal.sent, most))


def _fetch(state: State, words: Sequence[str]) -> CommandOutcome:
    found = _move(state, words)
    return replace(found, tag=found.tag.replace("MOVE", "FETCH"))


def _move(state: State, words: Sequence[str]) -> CommandOutcome:
    state.block.check()
    portal, rows = fetched(state, words)
    portal.sent += rows.table.num_rows
    return CommandOutcome(f"MOVE {rows.table.num_rows}", rows)


def _close(state: State, words: Sequence[str]) -> CommandOutcome:
    name = _last(words)
    if name.upper() == "ALL":
        state.portals.clear()
    else:
        state.portal(name)
        del state.portals[name]
    return CommandOutcome("CLOSE CURSOR")


def _not_served(name: str) -> Control:
    def refuse(state: State, _: Sequence[str]) -> CommandOutcome:
        state.block.check()
        raise Unsupported(f"{name} is not served: {_INSTEAD.get(name, 'send the statement itself')}")

    return refuse


def _last(words: Sequence[str]) -> str:
    if not words:
        raise BadSyntax("a name is missing at the end of the statement")
    return words[-1]


_STATEMENTS: Mapping[str, Control] = {
    "BEGIN": _begin,
    "START": _begin,
    "COMMIT": _commit,
    "END": _commit,
    "ROLLBACK": _roll_back,
    "ABORT": _roll_back,
    "SAVEPOINT": _save,
    "RELEASE": _release,
    "SET": _set,
    "SHOW": _show,
    "RESET": _reset,
    "DISCARD": _discard,
    "DEALLOCATE": _deallocate,
    "CLOSE": _close,
    "FETCH": _fetch,
    "MOVE": lambda state, words: replace(_move(state, words), rows=None),
    "UNLISTEN": lambda *_: CommandOutcome("UNLISTEN"),
    **{name: _not_served(name) for name in _NOT_SERVED},
}
