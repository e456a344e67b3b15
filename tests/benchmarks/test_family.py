"""The processor time and memory of processes, of which some end meanwhile."""

import subprocess
import sys

from benchmarks.measuring.family import Member, ticks_between
from benchmarks.measuring.memory import peak_bytes


def member(pid: int, parent: int, own: int, waited: int = 0) -> Member:
    return Member(pid, parent, is_jvm=False, own=own, waited=waited)


def test_what_the_living_used_counts_and_what_was_used_before_does_not() -> None:
    assert ticks_between([member(1, 0, 100)], [member(1, 0, 130), member(2, 1, 7)]) == 37


def test_a_child_that_was_waited_for_counts_from_the_beginning_of_the_call_on() -> None:
    assert ticks_between([member(1, 0, 100), member(2, 1, 50)], [member(1, 0, 110, waited=58)]) == 18


def test_a_child_that_no_process_waited_for_takes_nothing_off() -> None:
    assert ticks_between([member(1, 0, 100), member(2, 1, 500)], [member(1, 0, 110)]) == 10


def test_a_grandchild_counts_by_the_ancestor_that_is_left() -> None:
    before = [member(1, 0, 100), member(2, 1, 40), member(3, 2, 20)]
    assert ticks_between(before, [member(1, 0, 105, waited=75)]) == 20


def test_a_small_process_of_a_large_one_is_small() -> None:
    held = b"x" * (512 << 20)
    asks = "from benchmarks.measuring.memory import peak_bytes; print(peak_bytes())"
    done = subprocess.run([sys.executable, "-c", asks], check=True, capture_output=True, text=True)
    assert 1 << 20 < int(done.stdout) < len(held) // 2
    assert peak_bytes() > len(held)
