"""What is wrong with what a subscriber heard, beside what was written and what is in the table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from tests.serve.http.live.events import Told
from tests.serve.kills.load import Change, Written


def wrong_events(heard: Sequence[Told], writers: Sequence[Sequence[Written]], there: Mapping[object, object]) -> Iterator[str]:
    """Says what was missed, repeated, out of order or never written, and whether the sum of all is not what is `there`.

    Each of the writers waits for an answer before its next write. What comes of a write without an answer may be heard or not.
    """
    changes = [_change(one) for one in heard]
    yield from _wrong_times(Counter(changes), [each for writer in writers for each in writer])
    for before, after in pairwise(int(str(one.data["seq"])) for one in heard):
        if before >= after:
            yield f"{after} heard after {before}"
    for writer in writers:
        acknowledged = [each.change for each in writer if each.acknowledged]
        if not _in_order(acknowledged, changes):
            yield f"heard in another order than it was acknowledged: {acknowledged}"
    if (sums := _added_up(changes)) != there:
        yield f"what was heard adds up to {sums}, and the table has {there}"


def _change(event: Told) -> Change:
    row = event.data["row"]
    assert isinstance(row, dict)
    value = row.get("v")
    return Change(event.kind, int(str(row["id"])), None if value is None else int(str(value)))


def _wrong_times(times: Counter[Change], written: Sequence[Written]) -> Iterator[str]:
    for each in written:
        if times[each.change] != 1 and (each.acknowledged or times[each.change] > 1):
            yield f"{each.change} heard {times[each.change]} times"
    for change in times.keys() - {each.change for each in written}:
        yield f"{change} heard, but never written"


def _in_order(acknowledged: Sequence[Change], changes: Sequence[Change]) -> bool:
    """Whether those that were heard came in the order of their answers; how often is another question."""
    first = {change: place for place, change in reversed([*enumerate(changes)])}
    places = [first[change] for change in acknowledged if change in first]
    return places == sorted(places)


def _added_up(changes: Sequence[Change]) -> dict[int, int | None]:
    rows: dict[int, int | None] = {}
    for change in changes:
        if change.kind == "delete":
            rows.pop(change.id, None)
        else:
            rows[change.id] = change.value
    return rows
