from __future__ import annotations

import pytest

from lakewarden.base.attempts import Attempts
from lakewarden.errors import Conflict


def test_attempts_are_numbered_and_the_one_too_many_says_what_happened() -> None:
    attempts = Attempts(3, "n.t was settled", "while it was read", "poll again")
    for number in (1, 2, 3):
        attempts.next()
        assert attempts.made == number
    for _ in range(2):
        with pytest.raises(Conflict, match=r"^n\.t was settled 3 times while it was read; poll again$"):
            attempts.next()
