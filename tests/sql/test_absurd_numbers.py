"""Numbers beyond all bounds are refused where they are given, before anything is done."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lakewarden import Lakehouse
from lakewarden.errors import InvalidArgument


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lakehouse]:
    with Lakehouse.open(str(tmp_path_factory.mktemp("warehouse") / "w")) as opened:
        opened.sql("CREATE NAMESPACE n; CREATE SHARED TABLE n.t (id BIGINT PRIMARY KEY); INSERT INTO n.t VALUES (1)")
        opened.flush()
        yield opened


@pytest.mark.parametrize("hours", ["100000000000000000000", "1e400", "1e18", "4294967296"])
def test_vacuum_takes_no_absurd_retention(lake: Lakehouse, hours: str) -> None:
    for manner in ("", " DRY RUN"):
        with pytest.raises(InvalidArgument, match="give one from 0 to 4294967295"):
            lake.sql(f"VACUUM n.t RETAIN {hours} HOURS{manner}")
    with pytest.raises(InvalidArgument, match="give one"):
        lake.vacuum("n.t", retain_hours=float(hours))
    with pytest.raises(InvalidArgument):
        lake.k3.vacuum("n", "t", retention_hours=hours)
    assert lake.sql("VACUUM n.t RETAIN 4294967295 HOURS")


@pytest.mark.parametrize("option", ["last_rows", "batch_size", "from", "from_seq_id"])
@pytest.mark.parametrize("number", ["9223372036854775808", "1" + "0" * 5000, "\u00b2", "1e400"])
def test_a_subscription_takes_64_bits(lake: Lakehouse, option: str, number: str) -> None:
    with pytest.raises(InvalidArgument, match=f"SUBSCRIBE option {option}: .* is not a whole number"):
        lake.session(user="root", role="system").subscribe(f"SUBSCRIBE TO n.t OPTIONS ({option} = '{number}')")


@pytest.mark.parametrize("name", ["last_rows", "batch_size", "from_seq"])
def test_a_subscription_takes_64_bits_in_python(lake: Lakehouse, name: str) -> None:
    session = lake.session(user="root", role="system")
    with pytest.raises(InvalidArgument, match=f"{name}: 1000.* is more than 64 bits hold"):
        session.subscribe("SELECT * FROM n.t", **{name: 10**30})  # type: ignore[arg-type]
    with session.subscribe("SELECT * FROM n.t", last_rows=2**63 - 1) as subscription:
        assert subscription.poll()
