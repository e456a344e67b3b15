"""The doors: each asks for something as one person, and says what that person was told."""

from __future__ import annotations

import io
import random
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout, suppress

from lakewarden.cli.main import main
from lakewarden.errors import LakewardenError
from lakewarden.sql.results import Result, ResultRows
from lakewarden.tables.freshness import Freshness
from tests.sql.isolation.places import Person
from tests.sql.isolation.world import World, logged, refused

Door = Callable[[World, Person, random.Random], None]

_OPERATOR = Person("root", "system")
"""Who sees reports over every user's scope: ids are in them, and nobody's values."""


def through(world: World, door: Door, person: Person, seed: int) -> None:
    """Goes through a door. What is logged meanwhile is told to the operator, who is no owner of anything.

    Raises:
        Leak: somebody was told what is another's.
    """
    with logged() as lines:
        door(world, person, world.reseed(seed))
    world.told(_OPERATOR, lines)


def sql(world: World, person: Person, chance: random.Random) -> None:
    """Texts in a session; what came before a failing statement is told as well."""
    for _ in range(4):
        grammar = world.grammar(person, chance)
        text = grammar.text()
        freshness: Freshness = chance.choice(("strong", "eventual"))
        results: list[Result] = []
        error = ""
        try:
            world.session(person).sql(text, files=grammar.files, each=results.append, freshness=freshness)
        except LakewardenError as raised:
            error = refused(raised)
        world.told(person, [*(_shown(result) for result in results), error], text, grammar.impersonated)


def command_line(world: World, person: Person, chance: random.Random) -> None:
    grammar = world.grammar(person, chance)
    text = grammar.text()
    form = ["--format", "json"] if chance.random() < 0.5 else []
    told = _called(world, *form, "sql", text, "--user", person.user, "--role", person.role, "--no-wait")
    world.told(person, [told], text, grammar.impersonated)


def table(world: World, person: Person, chance: random.Random) -> None:
    """A table in Python, as the session's own."""
    name = f"app.{chance.choice(('notes', 'notes', 'feed', 'open', 'private', 'restricted', 'admins'))}"
    other = chance.choice(list(world.roles))
    session, impersonated = world.session(person), set[str]()
    try:
        if chance.random() < 0.3:
            impersonated = {other}
            session = session.execute_as(other)
        own = session.table(name)
        key = {"k": chance.choice(("a", "f", *world.homes))}
        told: object = chance.choice(
            (
                lambda: own.read(freshness=chance.choice(("strong", "eventual"))).to_pylist(),
                own.history,
                own.files,
                lambda: own.get_file(key, "photo"),
                lambda: own.delete_file(key, "photo"),
                lambda: own.delete([key]),
            )
        )()
    except LakewardenError as error:
        told = refused(error)
    world.told(person, [told], f"{key if 'key' in locals() else ''}", impersonated)


def subscription(world: World, person: Person, chance: random.Random) -> None:
    """What is there, and what has changed so far, as a subscriber is told of it."""
    name = chance.choice(("notes", "notes", "feed", "open", "private", "restricted", "admins"))
    other = chance.choice(list(world.roles))
    where = chance.choice(("", " WHERE v > 'tk4'", " WHERE k IS NOT NULL"))
    text = f"SELECT {chance.choice(('*', 'k, v', 'upper(v) AS v'))} FROM app.{name}{where}"
    session, impersonated = world.session(person), set[str]()
    told: list[object] = []
    try:
        if chance.random() < 0.3:
            impersonated = {other}
            session = session.execute_as(other)
        subscribed = session.subscribe(text, from_seq=chance.choice((None, None, -1, 0)), timeout=0.0, pause=lambda _: None)
        told += subscribed
    except LakewardenError as error:
        told.append(refused(error))
    world.told(person, told, text, impersonated)


def files(world: World, person: Person, chance: random.Random) -> None:
    """Files on the command line."""
    who = ("--user", person.user, "--role", person.role)
    key = f"k={chance.choice(('a', 'f'))}"
    told = chance.choice(
        (
            lambda: _called(world, "--format", "json", "file", "list", "app.notes", *who),
            lambda: _called(world, "file", "get", "app.notes", "photo", "--key", key, *who),
            lambda: _called(world, "file", "delete", "app.notes", "photo", "--key", key, *who),
        )
    )()
    world.told(person, [told])


def operator(world: World, _: Person, chance: random.Random) -> None:
    """What is told of everybody's scopes: figures, paths and reasons."""
    lake, user = world.lake, chance.choice(list(world.roles))
    asked = chance.choice(
        (
            lake.status,
            lake.check,
            lake.plan,
            lake.pending,
            lake.due,
            lake.jobs,
            lake.run_jobs,
            lake.flush,
            lake.compact,
            lambda: lake.optimize("app.notes", zorder=["k"]),
            lambda: lake.vacuum(retain_hours=0, force=True, dry_run=chance.random() < 0.5),
            lambda: lake.restore("app.notes", user=user, version=0, dry_run=chance.random() < 0.7),
            lambda: lake.table("app.notes").history(user=user),
            lambda: lake.tag("app.notes", f"t{chance.random()}", user=user),
            lake.health,
            lambda: lake.sql("SELECT * FROM system.audit_log; SELECT * FROM system.jobs; SELECT * FROM system.manifest"),
        )
    )
    try:
        told: object = asked()
    except LakewardenError as error:
        told = refused(error)
    world.told(_OPERATOR, [told if not isinstance(told, list) else [_shown(one) for one in told]])


def write(world: World, person: Person, _: random.Random) -> None:
    """More of one's own, in the log; what an erasure left nothing of is somebody's again."""
    try:
        world.write(person.user)
    except LakewardenError as error:
        world.told(person, [refused(error)])


def export(world: World, person: Person, chance: random.Random) -> None:
    """All that one user has; its manifest names the files, and so is theirs."""
    try:
        told: object = world.lake.export(person.user, f"{world.lake.warehouse.uri}/exports/{chance.getrandbits(32)}")
    except LakewardenError as error:
        told = refused(error)
    world.told(world.owner(person.user), [told])


def erasure(world: World, person: Person, _: random.Random) -> None:
    """One user's end: certificate and errors tell nothing of what was erased."""
    try:
        told: object = world.lake.erase(person.user, deep=True)
    except LakewardenError as error:
        told = refused(error)
    world.told(_OPERATOR, [told, world.lake.erasures()])


DOORS: tuple[Door, ...] = (
    *[sql] * 16,
    *[command_line] * 4,
    *[table] * 5,
    *[operator] * 5,
    *[write] * 3,
    files,
    files,
    export,
    erasure,
)


def _shown(result: object) -> object:
    return result.table.to_pylist() if isinstance(result, ResultRows) else result


def _called(world: World, *arguments: str) -> str:
    raw, err = io.BytesIO(), io.StringIO()
    out = io.TextIOWrapper(raw, write_through=True)
    with redirect_stdout(out), redirect_stderr(err), suppress(SystemExit):
        main(["--warehouse", world.lake.warehouse.uri, *arguments])
    out.flush()
    return raw.getvalue().decode(errors="replace") + err.getvalue()
