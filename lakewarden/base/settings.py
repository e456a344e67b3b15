"""All settings (`setting_sections` has each of them), read and checked. docs/reference/configuration.md is generated from here.

`load_settings` reads `lakewarden.toml` in the working directory; the variables `LAKEWARDEN_SECTION__KEY` override it.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import get_args

import msgspec

from lakewarden.base import setting_sections as sections
from lakewarden.errors import InvalidArgument

FILE = Path("lakewarden.toml")
_VARIABLE = "LAKEWARDEN_"


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All settings. Pass them as an argument; they are never global."""

    log: sections.LogSettings = sections.LogSettings()
    flush: sections.FlushSettings = sections.FlushSettings()
    compaction: sections.CompactionSettings = sections.CompactionSettings()
    storage: sections.StorageSettings = sections.StorageSettings()
    maintenance: sections.MaintenanceSettings = sections.MaintenanceSettings()
    locks: sections.LockSettings = sections.LockSettings()
    sql: sections.SqlSettings = sections.SqlSettings()
    files: sections.FilesSettings = sections.FilesSettings()
    load: sections.LoadSettings = sections.LoadSettings()
    pipelines: sections.PipelinesSettings = sections.PipelinesSettings()
    federation: sections.FederationSettings = sections.FederationSettings()
    jobs: sections.JobsSettings = sections.JobsSettings()
    serve: sections.ServeSettings = sections.ServeSettings()
    spark: sections.SparkSettings = sections.SparkSettings()
    prices: sections.PricesSettings = sections.PricesSettings()


@dataclass(frozen=True)
class SettingDescription:
    """One setting, as the docs and `system.settings` show it. `bounds` is text like `≥ 1, ≤ 10`, or the values it may have."""

    section: str
    key: str
    default: object
    bounds: str
    description: str

    @property
    def takes(self) -> str:
        """What to write, for a message."""
        return ", ".join(filter(None, (_KINDS[type(self.default)], self.bounds)))


_SIGNS = {"ge": "≥", "gt": ">", "le": "≤", "lt": "<"}
_KINDS = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "a text",
    tuple: "a list of texts",
    dict: "texts by name",
}


def described_settings() -> Iterator[SettingDescription]:
    for section in msgspec.structs.fields(Settings):
        for field in msgspec.structs.fields(section.type):
            kind, *metas, description = get_args(field.type)  # of a setting without bounds there is no `Meta`
            bounds = [
                f"{sign} {bound}" for name, sign in _SIGNS.items() for meta in metas if (bound := getattr(meta, name)) is not None
            ]
            choices = [choice for choice in get_args(kind) if isinstance(choice, str)]
            default = field.default_factory() if field.default is msgspec.NODEFAULT else field.default
            yield SettingDescription(section.name, field.name, default, ", ".join(bounds + choices), description)


def load_settings(environ: Mapping[str, str], file: Path = FILE) -> Settings:
    """Reads the settings from the file and the environment.

    Raises:
        InvalidArgument: the file is not TOML, there is no such section or key, a value has the wrong type or is out of bounds, or
            a setting is there under two names.
    """
    found = _flat(_of_file(file))
    for section, given in _flat(_of_environment(environ)).items():
        found[section] = {**found.get(section, {}), **given}
    return checked_settings(found)


def checked_settings(found: Mapping[str, Mapping[str, object]]) -> Settings:
    """Settings by section and key, as a file or `msgspec.to_builtins` has them (constructors of msgspec check nothing).

    Raises:
        InvalidArgument: there is no such section or key, or the setting does not take the value.
    """
    try:
        return msgspec.convert(found, Settings, strict=False)
    except msgspec.ValidationError as error:
        raise InvalidArgument(f"settings: {_fault(found)}") from error


def _fault(found: Mapping[str, Mapping[str, object]]) -> str:
    """The first thing in `found` that is no setting, or no value of its setting."""
    described = {
        name: {one.key: one for one in settings} for name, settings in groupby(described_settings(), lambda one: one.section)
    }
    for section, values in found.items():
        if section not in described:
            return f"there is no section [{section}]; there are {', '.join(described)}"
        for key, value in values.items():
            if key not in described[section]:
                return f"[{section}] has no {key!r}; it has {', '.join(described[section])}"
            try:
                msgspec.convert({section: {key: value}}, Settings, strict=False)
            except msgspec.ValidationError:
                given = f" = {value!r}" if isinstance(value, str | int | float) else ""  # Spark's may hold secrets
                return f"{section}.{key}{given}: write {described[section][key].takes}"
    raise AssertionError("msgspec refused what it takes one by one")


def _of_environment(environ: Mapping[str, str]) -> dict[str, dict[str, object]]:
    found: dict[str, dict[str, object]] = {}
    for variable, text in environ.items():
        section, _, key = variable.upper().removeprefix(_VARIABLE).lower().partition("__")
        if key and variable.upper().startswith(_VARIABLE):
            found.setdefault(section, {})[key] = _value(variable, text)
    return found


def _flat(given: Mapping[str, dict[str, object]]) -> dict[str, dict[str, object]]:
    """What `[flush.compaction]` says, which is how KalamDB writes it, under the names that it has here.

    Raises:
        InvalidArgument: a setting is there under both names.
    """
    found = {section: dict(values) for section, values in given.items()}
    inner = found.get("flush", {}).pop("compaction", {})
    if not isinstance(inner, dict):
        raise InvalidArgument("settings: flush.compaction is a section: write [flush.compaction], with its keys below")
    for key, value in inner.items():
        section, name = ("flush", "compact_after") if key == "enabled" else ("compaction", key)
        if name in found.setdefault(section, {}):
            raise InvalidArgument(f"settings: flush.compaction.{key} is {section}.{name} by another name; write one of them")
        found[section][name] = value
    return found


def _of_file(file: Path) -> dict[str, dict[str, object]]:
    try:
        found = tomllib.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise InvalidArgument(f"settings: {file} cannot be read as TOML: {error}") from error
    if outside := [key for key, value in found.items() if not isinstance(value, dict)]:
        raise InvalidArgument(f"settings: {outside[0]!r} of {file} stands in no section: write [section], and its keys below")
    return found


def _value(variable: str, text: str) -> object:
    """Lists and dictionaries are written as JSON."""
    if not text.startswith(("[", "{")):
        return text
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        raise InvalidArgument(f"settings: {variable} begins like JSON but is not valid JSON: {error}") from error
