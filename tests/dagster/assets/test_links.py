"""Links that fill a form: the launchpad reads the URL's query as Dagster's web pages do."""

from __future__ import annotations

from urllib.parse import parse_qsl, urlsplit

import yaml

from lakewarden.client.dagster_links import form_path
from lakewarden.dagster.assets.links import link
from tests.fixtures.dagster import DAGSTER

pytestmark = DAGSTER

ODD = "a/b &=?#[1]) 'ü\""


def test_a_link_fills_the_form_and_selects_the_partition() -> None:
    place = urlsplit(form_path("vacuum_job", "vacuum", {"tables": ["chat.messages"], "user": ODD}, ODD))
    query = dict(parse_qsl(place.query, strict_parsing=True))
    assert (place.scheme, place.netloc, place.path) == ("", "", "/guess/vacuum_job/playground/setup")
    assert yaml.safe_load(query.pop("config")) == {"ops": {"vacuum": {"config": {"tables": ["chat.messages"], "user": ODD}}}}
    assert query == {"tags[0][key]": "dagster/partition", "tags[0][value]": ODD}


def test_a_link_is_one_for_markdown_whatever_the_user_is_called() -> None:
    url = form_path("flush_job", "flush", {"user": ODD}, ODD)
    assert not set(url) & set(" ()[]<>\"'")
    assert link("Flush", url).value == f"[Flush]({url})"
