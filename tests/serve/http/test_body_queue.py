"""Long bodies are read in the order in which they came, and nothing else waits for them."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec
import pytest

from lakewarden.serve.http import requests
from lakewarden.serve.http.requests import BodyQueue

_LONG = b'{"text": "%s"}' % (b"x" * (64 << 10))
_SHORT = b'{"text": "y"}'


class _Body(msgspec.Struct):
    text: str


class _Reader:
    """`decoded_as`, which goes on when it is let."""

    def __init__(self) -> None:
        self.running = 0
        self.most = 0
        self.let_go = threading.Event()

    def __call__(self, kind: type[_Body], data: bytes, *, strict: bool) -> _Body:
        self.running += 1
        self.most = max(self.most, self.running)
        if len(data) > len(_SHORT):
            assert self.let_go.wait(5)
            time.sleep(0.1)  # for others to come in, if they are let in
        self.running -= 1
        return msgspec.json.decode(data, type=kind, strict=strict)


@contextmanager
def _reading(monkeypatch: pytest.MonkeyPatch) -> Iterator[_Reader]:
    reader = _Reader()
    monkeypatch.setattr(requests, "decoded_as", reader)
    yield reader
    reader.let_go.set()


async def _ended(queue: BodyQueue, bodies: list[bytes], reader: _Reader) -> list[int]:
    """The numbers of bodies, which came one after the other, in the order in which they were read. The long ones wait until all
    others are."""
    ended: list[int] = []

    async def read(number: int) -> None:
        await queue.read(_Body, bodies[number], strict=True)
        ended.append(number)
        if sum(len(body) == len(_SHORT) for body in bodies) == len(ended):
            reader.let_go.set()

    await asyncio.gather(*map(read, range(len(bodies))))
    return ended


def test_short_bodies_do_not_wait_for_long_ones_which_are_read_in_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    with _reading(monkeypatch) as reader:
        ended = asyncio.run(_ended(BodyQueue(), [_LONG, _LONG, _SHORT, _LONG, _LONG, _SHORT, _LONG], reader))
    assert ended == [2, 5, 0, 1, 3, 4, 6]
    assert reader.most <= 2, "one long body, and a short one beside it"


def test_a_body_that_cannot_be_read_lets_the_next_one_in() -> None:
    async def read() -> str:
        queue = BodyQueue()
        broken, whole = await asyncio.gather(
            queue.read(_Body, _LONG[:-1], strict=True), queue.read(_Body, _LONG, strict=True), return_exceptions=True
        )
        assert isinstance(broken, msgspec.DecodeError)
        assert isinstance(whole, _Body)
        return whole.text

    assert len(asyncio.run(read())) == 64 << 10
