"""Subscribers of `lakewarden serve` as a program that is killed and stopped."""

from __future__ import annotations

import signal
import threading
import time
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path

import pytest

from lakewarden import Lakehouse
from lakewarden.serve.tokens import operator_token
from tests.fixtures.patience import PATIENCE
from tests.serve.http.live.follower import LAST, Follower, by_events, by_socket
from tests.serve.http.program import free_port, program

_SQL = "SELECT id FROM app.notes"


@pytest.mark.slow
def test_nothing_is_missed_or_repeated_over_kills_and_a_stop_says_goodbye(tmp_path: Path) -> None:
    place, port = str(tmp_path / "w"), free_port()
    written = 0
    with Lakehouse.open(place) as lake, ExitStack() as running:
        lake.sql("CREATE NAMESPACE app; CREATE TABLE app.notes (id BIGINT PRIMARY KEY) WITH (TYPE = 'USER')")
        notes = lake.table("app.notes")
        token = operator_token(lake.warehouse, "ann", "user", timedelta(hours=12))
        followers = [Follower(hear, f"http://127.0.0.1:{port}", token, _SQL) for hear in (by_events, by_socket)]
        threads = [threading.Thread(target=one.follow, args=[threading.Event()], daemon=True) for one in followers]
        for thread in threads:
            thread.start()
        for end, status in ((signal.SIGKILL, -signal.SIGKILL), (signal.SIGTERM, 0), (None, None)):
            server = running.enter_context(program(place, port))
            heard = written
            while not all(one.place is not None and len(one.rows) > heard + 20 for one in followers):
                time.sleep(0.01)
                notes.write([{"id": written}], user="ann")
                written += 1
                if written % 50 == 0:
                    lake.flush("app.notes")
            if end is not None:
                server.send_signal(end)
                assert server.wait(PATIENCE) == status
        notes.write([{"id": LAST}], user="ann")
        for thread in threads:
            thread.join(PATIENCE)
    for follower in followers:
        assert follower.ids == [*range(written)]
        assert follower.ended
        assert "goodbye" in follower.kinds  # again, if it comes back before the port is closed
