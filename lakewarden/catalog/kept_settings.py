"""Settings of the whole warehouse: its catalog keeps them, so that all its processes go by the same.

They are those by which scopes are found to have nothing to do (`catalog.state.floor_entries.UpkeepNote`). Were they each
process's own, two processes with different ones would open each other's quiet scopes again and again. And the prices, so that
all figures of the fleet count with the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

import msgspec

from lakewarden.base.setting_sections import CompactionSettings, PricesSettings
from lakewarden.base.settings import SettingDescription, Settings, checked_settings, described_settings
from lakewarden.catalog.model import Catalog, Table
from lakewarden.errors import InvalidArgument

# By which rules maintenance finds something to do in a table's scopes. The warehouse keeps them (`catalog.kept_settings`).
MAX_RATIO = 1_000_000


def check_ratio(name: str, ratio: float) -> float:
    """Returns the ratio.

    Raises:
        InvalidArgument: it is not one; `name` says in the message whose it is.
    """
    if not 0 <= ratio <= MAX_RATIO:
        raise InvalidArgument(f"{name} {ratio:g}: a number from 0 to {MAX_RATIO}, where 0 takes all files that fit")
    return ratio


@dataclass(frozen=True)
class TailRule:
    """Which of a scope's newest small files one compaction takes (`tables.upkeep_files`).

    A file with fewer than `max_rows` rows is small. A compaction needs `min_files` small files at the end, and takes at most
    `max_files` of them and `max_rows` rows. With a `ratio`, the oldest of them has at most so many times the rows of the others
    together; 0 is Storage Tiers' rule, which knows no ratio and takes as many as fit.
    """

    min_files: int = 5
    max_files: int = 8
    max_rows: int = 10_000
    ratio: float = 0.0


@dataclass(frozen=True)
class UpkeepRules:
    """The rules of one table: for compactions that run by themselves, and for packing.

    `min_gain` is the share of its files that a packing has to save.
    """

    tail: TailRule = TailRule()
    min_gain: float = 0.25


KEPT: Mapping[str, SettingDescription] = {
    name: one
    for one in described_settings()
    if (name := f"{one.section}.{one.key}").startswith(("compaction.", "prices.")) or name == "maintenance.min_gain"
}
"""By name, as `compaction.ratio`."""

DEFAULT = "default"
"""The value that sets a setting back."""


@dataclass(frozen=True)
class KeptSettings:
    """What a warehouse goes by."""

    compaction: CompactionSettings
    min_gain: float
    prices: PricesSettings

    @classmethod
    def of(cls, settings: Settings) -> KeptSettings:
        return cls(settings.compaction, settings.maintenance.min_gain, settings.prices)

    def value(self, name: str) -> int | float:
        section, _, key = name.partition(".")
        found: int | float = self.min_gain if section == "maintenance" else getattr(getattr(self, section), key)
        return found

    def text(self, name: str) -> str:
        value = self.value(name)
        return str(int(value)) if value == int(value) else str(value)

    def rules(self, table: Table) -> UpkeepRules:
        """The rules of a table, whose own ratio comes before the warehouse's."""
        found, own = self.compaction, table.options.compaction_ratio
        rows = found.shared_max_segment_rows if table.type == "SHARED" else found.user_max_segment_rows
        ratio = found.ratio if own is None else own
        return UpkeepRules(TailRule(found.min_eligible_segments, found.max_segments_per_run, rows, ratio), self.min_gain)


def kept_settings(catalog: Catalog, own: Settings) -> KeptSettings:
    """What the catalog says; until a warehouse's settings are taken over, what the process's `own` say."""
    if catalog.settings is None:
        return KeptSettings.of(own)
    return _kept(tuple(catalog.settings.items()))


@lru_cache(maxsize=64)
def _kept(texts: tuple[tuple[str, str], ...]) -> KeptSettings:
    found = Settings()
    for name, text in texts:
        if name in KEPT:  # not of a later release
            found = _with(found, name, text)
    return KeptSettings.of(found)


def texts_of(own: Settings) -> dict[str, str]:
    """What a catalog keeps of a process's settings: those that are not the default."""
    found = KeptSettings.of(own)
    return {name: found.text(name) for name, one in KEPT.items() if found.value(name) != one.default}


def take_over(catalog: Catalog, own: Settings) -> Catalog:
    """Keeps what the process's settings say, unless the catalog has settings already."""
    return catalog if catalog.settings else replace(catalog, settings=texts_of(own))


def change_settings(catalog: Catalog, changes: Mapping[str, str], own: Settings) -> Catalog:
    """Changes settings, each by its name; what they were until now is kept with the first change.

    Raises:
        InvalidArgument: there is no such setting, or it is not one of the warehouse; the value has another type, or is out of
            its bounds.
    """
    if not changes:
        raise InvalidArgument(f"name a setting: {', '.join(KEPT)}")
    # The first change keeps the others as they were for this process: no other setting changes by the way.
    texts = dict(texts_of(own) if catalog.settings is None else catalog.settings)
    for given, text in changes.items():
        name = _checked_name(given)
        # Popped first, so that `default` leaves nothing, and a release with another default brings its own.
        texts.pop(name, None)
        if text.strip().lower() != DEFAULT:
            changed = _with(Settings(), name, text.strip())
            texts[name] = KeptSettings.of(changed).text(name)
    return replace(catalog, settings=texts)


def contradictions(kept: KeptSettings, own: Settings) -> tuple[str, ...]:
    """The settings that a process's own change in vain, as the warehouse's say something else."""
    return _contradictions(kept, KeptSettings.of(own))


@lru_cache(maxsize=64)
def _contradictions(kept: KeptSettings, given: KeptSettings) -> tuple[str, ...]:
    return tuple(name for name, one in KEPT.items() if given.value(name) not in (one.default, kept.value(name)))


def _checked_name(given: str) -> str:
    name = given.strip().lower()
    if name in KEPT:
        return name
    if any(name == f"{one.section}.{one.key}" for one in described_settings()):
        raise InvalidArgument(
            f"{name} is a setting of each process: write it into lakewarden.toml. Those of the warehouse are {', '.join(KEPT)}"
        )
    raise InvalidArgument(f"there is no setting {given!r}; those of the warehouse are {', '.join(KEPT)}")


def _with(settings: Settings, name: str, text: str) -> Settings:
    """Raises InvalidArgument: the text is not a value of that setting."""
    section, _, key = name.partition(".")
    content = msgspec.to_builtins(settings)
    content[section][key] = text
    try:
        return checked_settings(content)
    except InvalidArgument as error:
        raise InvalidArgument(f"{error.message}; or {DEFAULT}") from error
