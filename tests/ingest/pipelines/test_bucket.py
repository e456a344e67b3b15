"""A pipeline whose warehouse and source are in a bucket."""

from __future__ import annotations

import pytest

from lakewarden import Lakehouse
from lakewarden.base.connection import Location
from lakewarden.errors import InUse
from lakewarden.storage.open import open_store
from tests.fixtures.azurite import AzuriteServer
from tests.fixtures.minio import MinioServer
from tests.ingest.pipelines.uploads import rejects, rows, table


@pytest.fixture(params=["minio", "azurite"])
def place(request: pytest.FixtureRequest) -> str:
    server: MinioServer | AzuriteServer = request.getfixturevalue(request.param)
    return server.prefix_for(request.node.nodeid)


@pytest.mark.slow
def test_objects_of_a_bucket_are_taken_once(place: str) -> None:
    with Lakehouse.open(f"{place}/w") as lake:
        lake.create_namespace("n")
        with pytest.raises(InUse):
            lake.sql(f"CREATE SHARED TABLE n.t FROM TEMPLATE csv WITH (SOURCE = '{place}')")
        lake.sql(f"CREATE SHARED TABLE n.t FROM TEMPLATE csv WITH (SOURCE = '{place}/in')")
        source = open_store(Location(f"{place}/in"))
        for number in range(3):
            source.put(f"deep/{number} ü.csv", f"id,name\n{number},x\n".encode())
        source.put("bad.csv", b"id,name\n1\n")
        first, again = lake.ingest("n.t"), lake.ingest("n.t")
        assert (first.ingested, first.rejected, again.batches) == (3, 1, 0)
        source.put("deep/0 ü.csv", b"id,name\n9,new\n")
        assert lake.ingest("n.t").ingested == 1
        assert lake.ingest("n.t", f"{place}/in/deep/1 ü.csv").ingested == 1
        assert table(lake) == [(1, "x"), (2, "x"), (9, "new")]
        assert list(rejects(lake)) == ["bad.csv"]
        open_store(Location(f"{place}/else")).put("x.csv", b"id,name\n5,e\n")
        assert lake.ingest("n.t", f"{place}/else/*.csv").ingested == 1
        (row,) = rows(lake, "SELECT _object FROM n.t WHERE id = 5")
        assert row == {"_object": f"{place}/else/x.csv"}
