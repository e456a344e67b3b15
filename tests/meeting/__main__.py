"""python -m tests.meeting --seconds 300 --kill-every 15: prints what it found as JSON; ends with 1 if anything is wrong."""

from __future__ import annotations

import argparse
import json
import signal
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

from tests.fixtures.kafka import serve_kafka
from tests.meeting.campaign import Campaign


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.meeting")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument("--kill-every", type=float, default=15.0)
    parser.add_argument("--place", type=Path, help="an empty directory to keep; a temporary one otherwise")
    given = parser.parse_args()
    for signaled in (signal.SIGINT, signal.SIGTERM):  # either ends the processes of the meeting, too
        signal.signal(signaled, signal.default_int_handler)
    with (
        tempfile.TemporaryDirectory(prefix="lakewarden-meeting-", ignore_cleanup_errors=True) as temporary,
        serve_kafka() as kafka,
    ):
        place = given.place or Path(temporary)
        found = Campaign(place, kafka, given.seed, given.seconds, given.kill_every).run()
    print(json.dumps(asdict(found)))  # noqa: T201
    return int(bool(found.wrong))


if __name__ == "__main__":
    sys.exit(main())
