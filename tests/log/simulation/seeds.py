"""The seeds at which the planted faults were met last: a test tries them first, and searches if the simulation has changed.

python -m tests.log.simulation.seeds    tries all faults, searches for those that their seed no longer meets, writes seeds.json
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from itertools import chain
from pathlib import Path

from tests.log.simulation.planted import FAULTS, Fault
from tests.log.simulation.planted_blocks import BLOCK_FAULTS
from tests.log.simulation.planted_images import IMAGE_FAULTS
from tests.log.simulation.planted_jobs import JOB_FAULTS
from tests.log.simulation.planted_streams import STREAM_FAULTS
from tests.log.simulation.search import first_failure

ALL_FAULTS = (*FAULTS, *JOB_FAULTS, *STREAM_FAULTS, *IMAGE_FAULTS, *BLOCK_FAULTS)
FOUND_WITHIN = 20_000

_PAGE = Path(__file__).with_suffix(".json")
_met: Mapping[str, int] = json.loads(_PAGE.read_text())


def seeds_of(fault: Fault) -> Iterator[int]:
    """The seed at which the fault was met last, then all others."""
    return chain([_met[fault.name]] if fault.name in _met else [], range(FOUND_WITHIN))


def _search(fault: Fault) -> int | None:
    with fault.planted() as roles:
        return first_failure(seeds_of(fault), roles)


def main() -> None:
    met = {fault.name: _search(fault) for fault in ALL_FAULTS}
    _PAGE.write_text(json.dumps({name: seed for name, seed in met.items() if seed is not None}, indent=2, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
