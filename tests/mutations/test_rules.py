"""Rules that were broken once, each by a small fault that no test saw then, and the mutation that breaks it now."""

from __future__ import annotations

from tests.mutations.listed import mutations

_BROKEN_BY = {
    # direct writes
    "a commit whose answer was lost is recognized": "a commit whose answer was lost is made again",
    "a rerun gets new numbers": "a run that follows one that lost keeps its numbers",
    "refused features are looked at before anything is named": "a feed that cannot be is refused when files are named already",
    "an update reads again what was removed since": ("an update goes on top of a commit that removed a file which it replaces"),
    "of small files the changed one is written again": "of small files that are read together, the wrong one is written again",
    "an overwrite under new columns says its deletes": "an overwrite under new columns says nothing of what it removes",
    "deletion vectors count when files are carried": "rows that others deleted by vectors come back under new columns",
    "a refused overwrite holds nobody back": "an overwrite that was refused holds others back",
    "a barrier closes notes behind its durable commit": "a barrier lets subscribers pass before it is durable",
    "a barrier in a mount point closes nothing": "a barrier in a mount point lets subscribers pass",
    "a direct write is durable when it is acknowledged": "a direct write is acknowledged before it is durable",
    "the note of an unknown outcome stays": "the note of a direct write with an unknown outcome is closed",
    "a repeated write closes the notes of its attempts": "the attempts of a write that was repeated stay noted",
    "a direct write into a mount point is an error": "a direct write into a mount point is acknowledged",
    "columns that change under a direct write count": "columns that change under a direct write are undone",
    "a direct write is noted by a floor": "a direct write that no floor could note is acknowledged",
    "a state from a backup takes no direct write": "a state from a backup takes direct writes",
    "numbers stay within their position": "numbers of rows run over their position",
    "paths are compared decoded": "files of partitions with odd values are not found among those that were removed",
    "a stranger's commit touches what it names": "a file of a commit that does not say whether rows changed changes nothing",
    "a note lies behind what was settled": "a direct write is noted at the last segment that is left",
    # ingests
    "a version that cannot be read removes nothing": "a new version that cannot be read removes the rows of the old one",
    "rejects of new objects are not written again": "the rejects of every object of a batch are read and written again",
    "a settled batch is not attempted": "a batch whose number is the last settled one is attempted",
    "an attempt at an earlier batch does not count": "an attempt with the number of its batch counts",
    "an object that is replaced under a read is left": (
        "an object that is replaced while it is read is taken under the ETag that was listed"
    ),
    "the newest record of an object counts": "of two runs that know an object, the one that is looked at last counts",
    "a disabled engine ends an ingest": "an ingest goes on in an engine that was disabled",
    "settled numbers are used once": "a run settles the number of its batch alone",
    "two objects of a batch agree on a new column": "a column has the types that objects of a batch give it",
    # keyed writes
    "a key outlives midnight": "a key is forgotten at midnight",
    "two that meet at midnight write once": "two requests with one key both write where they meet at midnight",
    "a key is its user's": "a key answers whoever sends it",
    "a failed write has ended": "a write that failed counts as running",
    "of two at the same moment one writes": "two requests with one key at the same moment both write",
    "yesterday's keys stay": "keys of half a day are removed",
    "a key is its request's": "another request under a key is answered",
    "a key is its call's": "another call with the same body is answered",
    "who just failed is remembered": "of too many names that failed, the newest is forgotten",
    # floors and storages
    "another's flush may have deleted": "a flush that another has committed is noted as one that deleted nothing",
    "the watermark of what is given up stays": "what is given up is noted with a lower watermark than it had",
    "records of a moved scope go": "a version that was seen at the old place of a moved scope is missed at the new one",
    "a commit into a mount point does not count": "a commit into the mount point of a disk that is back counts",
    "a restore deletes": "a restore is noted as one that deleted nothing",
    # files of rows
    "a reference stays within its scope": "the id in a reference may be a path",
    "what is served is what was stored": "a file that is not what was stored is served",
    "a file belongs to a row": "the file of a row that is not there is deleted",
    # plans, jobs, erasures
    "a plan for an erased user loses its head": "a plan for a user who was erased keeps its head",
    "half a plan is none": "a plan that was stored in part can be applied",
    "a job that ends behind an erasure names nobody": "a job that ends behind an erasure keeps the user",
    "a storage that was away is not certified": "a storage that went away before it was searched is certified",
    "failed checks forget an erased user": "failed checks keep an erased user",
    "an erasure that meets a move ends its own": "an erasure that meets a move ends the one that was interrupted",
    "leftovers of killed processes go": "an erasure leaves what a killed writer left",
    # subscriptions
    "a restore ends a subscription": "a subscription goes on over a restore",
    "a place was given out": "a place that was never given out is taken",
    "a place of before a backup ends": "a place of before a restored backup goes on",
}


def test_each_rule_has_a_mutation_that_a_test_sees_or_a_reason() -> None:
    listed = {each.name: each for each in mutations()}
    assert len(_BROKEN_BY) == len({*_BROKEN_BY.values()}) == 57
    assert {*_BROKEN_BY.values()} <= listed.keys()
    excused = [rule for rule, name in _BROKEN_BY.items() if listed[name].excused]
    assert excused == ["an attempt at an earlier batch does not count"]
