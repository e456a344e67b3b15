"""The last batches of writers with an identity, where a repair doubts them, and where such a writer is resumed.

What is kept of a writer whose batches may be lost is uncertain until it is resumed. Beside it stands the last number that is
certain. Segments that were there before it was resumed do not say any more what its last batch is (`LogCut.restated`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from lakewarden.errors import Corrupt
from lakewarden.log.objects.cache import HeaderCache
from lakewarden.log.objects.cut import LogCut, newest_cut
from lakewarden.log.objects.cuts.next_cut import advance
from lakewarden.log.objects.header import BatchIdentity, Header
from lakewarden.log.objects.view import read_view
from lakewarden.log.once import ANY, LastBatch, Resume
from lakewarden.log.position import NOTHING
from lakewarden.storage.objects import ObjectStore

_CERTAIN = "+"
"""What the key of a writer's last certain number ends in."""


def last_batch(cut: LogCut, run: Sequence[Header], key: str) -> LastBatch:
    """The last batch of the writer with this key, in a view."""
    kept = cut.published.get(key)
    # Segments above do not help: a batch between the last certain one and these may be among what is lost.
    if kept is not None and not LastBatch.of(kept).certain:
        return LastBatch.of(kept)
    above = [each.batch for each in published_in(cut, run) if each.writer == key]
    numbers = above if kept is None else [kept, *above]
    return LastBatch.of(max(numbers, default=cut.published.get(ANY)))


def published_in(cut: LogCut, run: Sequence[Header]) -> list[BatchIdentity]:
    """The batches that segments behind the cut name, and that count."""
    # A repair restates all writers at once, up to the log's end as it was then.
    every = cut.restated.get(ANY, NOTHING)
    numbered = enumerate(run, cut.upto + 1)
    named = ((position, header.published) for position, header in numbered if header.published is not None)
    return [each for position, each in named if position > cut.restated.get(each.writer, every)]


def last_batches(store: ObjectStore, log_id: str) -> dict[str, LastBatch]:
    """By key, the last batch of each writer that is known; of a log with faults, by its newest cut."""
    try:
        view = read_view(store, log_id, HeaderCache(0), ())
        cut, run = view.cut, view.run
    # For a repair, which needs to know the writers of a log that cannot be read.
    except Corrupt:
        cut, run = newest_cut(store, log_id), ()
    keys = {*_keys(cut.published), *(each.writer for each in published_in(cut, run))}
    return {key: last_batch(cut, run, key) for key in sorted(keys)}


def doubt(store: ObjectStore, log_id: str) -> None:
    """Makes the last batches of all writers uncertain, since rows are lost that had left the log. May be repeated.

    Raises:
        Conflict, StorageUnavailable: try again.
    """
    view = read_view(store, log_id, HeaderCache(0), ())
    above = newest(published_in(view.cut, view.run))

    def doubted(cut: LogCut) -> LogCut | None:
        published = in_doubt(cut, above)
        return None if cut.sealed or published == cut.published else replace(cut, published=published)

    advance(store, log_id, doubted)


def resume(store: ObjectStore, log_id: str, key: str, how: Resume, end: int | None) -> None:
    """Says from where an uncertain writer goes on; changes nothing of others. May be repeated.

    Args:
        end: the number up to which `skip` leaves out where the last one is not known.

    Raises:
        Conflict, StorageUnavailable: try again.
    """
    upto = read_view(store, log_id, HeaderCache(0), ()).last_position
    advance(store, log_id, lambda cut: _resumed(cut, key, how, end, upto))


def in_doubt(cut: LogCut, above: Mapping[str, int], *, lost: bool = False) -> dict[str, int]:
    """What a cut keeps of writers all of whose last batches are uncertain.

    Args:
        above: the numbers that segments behind the cut say.
        lost: parts of the log are lost, so that there may have been later batches, and other writers.
    """
    published = dict(cut.published)
    for key in sorted({*_keys(published), *above}):
        last = LastBatch.of(published.get(key))
        if last.certain:
            number = max(last.kept, above.get(key, last.kept))
            published[key] = LastBatch(None if lost else number, certain=False).kept
            # For a resume by `repeat`, which goes on from here: beyond that number anything may be missing.
            published |= {f"{key}{_CERTAIN}": last.kept} if lost else {}
    # A writer whose only batches were lost is in no list, and must not pass for one that never wrote.
    return published | ({ANY: LastBatch(None, certain=False).kept} if lost else {})


def newest(batches: Iterable[BatchIdentity]) -> dict[str, int]:
    """The highest number of each writer."""
    found: dict[str, int] = {}
    for writer, batch in batches:
        found[writer] = max(batch, found.get(writer, batch))
    return found


def _resumed(cut: LogCut, key: str, how: Resume, end: int | None, upto: int) -> LogCut | None:
    last = LastBatch.of(cut.published.get(key, cut.published.get(ANY)))
    if cut.sealed or last.certain:
        return None
    certain = LastBatch.of(cut.published.get(f"{key}{_CERTAIN}"))
    skipped = LastBatch(end if last.number is None else last.number)
    # `repeat` takes the last number that is sure to be whole; `skip` the last one that may be there.
    kept = certain if how == "repeat" else skipped
    published = {other: number for other, number in cut.published.items() if other not in (key, f"{key}{_CERTAIN}")}
    # Segments that are still in the log would bring the doubtful number back; up to here they are not heard.
    return replace(cut, published={**published, key: kept.kept}, restated={**cut.restated, key: max(upto, cut.upto)})


def _keys(published: Mapping[str, int]) -> list[str]:
    return [key for key in published if key != ANY and not key.endswith(_CERTAIN)]
