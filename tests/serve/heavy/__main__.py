"""python -m tests.serve.heavy --statements 1000: says what became of them as JSON; ends with 1 if one or the server did wrong."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

from tests.serve.heavy.campaign import beyond, search


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.serve.heavy")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--statements", type=int, default=1000)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="lakewarden-heavy-") as place:
        found = search(Path(place), given.seed, given.statements)
    wrong = beyond(found)
    print(json.dumps({**asdict(found), "beyond": wrong}, indent=1))  # noqa: T201
    return int(bool(found.wrong or wrong))


if __name__ == "__main__":
    sys.exit(main())
