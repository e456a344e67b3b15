"""Says of one table what is there, what is damaged, and what each operation would do."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from lakewarden.base.connection import Location
from lakewarden.base.setting_sections import MaintenanceSettings, PricesSettings
from lakewarden.delta.features import in_use, unknown_features
from lakewarden.delta.replay.damage import DamageKind, kind_of, notes_on
from lakewarden.delta.replay.log_state import LogState, replay
from lakewarden.errors import LakewardenError
from lakewarden.maintenance.survey.estimate import SurveyedTable, all_refused, estimates
from lakewarden.maintenance.survey.listing import TableListing
from lakewarden.maintenance.survey.place import place_class
from lakewarden.maintenance.survey.table_survey import Damage, TableSurvey

SMALL = 32 << 20
"""Bytes below which a file is small."""


@dataclass(frozen=True)
class SurveyOptions:
    """How a survey looks, and what it counts with."""

    prices: PricesSettings = PricesSettings()
    deep: bool = False
    """Whether the footers of data files are read."""
    target_size: int = MaintenanceSettings().target_file_size
    """Bytes of a file that an operation writes."""


def survey_table(location: Location, listing: TableListing, options: SurveyOptions) -> TableSurvey:
    """Looks at one table. What keeps it from being read is said in `error`."""
    try:
        if listing.left_out:
            raise too_many(listing)
        return _survey(location, listing, options)
    except LakewardenError as error:
        kind = kind_of(error)
        damage = () if kind is None else (Damage(kind, error.message),)
        return TableSurvey(
            location.uri,
            "unreadable" if kind is None else "damaged",
            damage=damage,
            log_bytes=sum(each.size for each in listing.log),
            log_objects=len(listing.log),
            error=f"{error.code}: {error.message}",
            operations=all_refused(error.message),
        )
