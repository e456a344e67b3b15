"""An operator's day in a real browser: at each step partitions, health, `status` and rows say the same of each tenant."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.dagster.day import live
from tests.fixtures.dagster import DAGSTER

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

pytestmark = [*DAGSTER, pytest.mark.slow, pytest.mark.disk, pytest.mark.timeout(3600)]


@pytest.mark.night
def test_all_say_the_same_all_day_and_in_the_end_all_is_green(browser: Chrome, tmp_path: Path) -> None:
    live(tmp_path, browser)
