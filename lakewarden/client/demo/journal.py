"""Records the demo's steps: what each did and how long it took."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Step:
    """A finished step. `figures` are whole numbers by snake_case names."""

    title: str
    text: str
    seconds: float
    figures: dict[str, int]


@dataclass
class StepReport:
    """What a step reports; filled while it runs."""

    text: str = ""
    figures: dict[str, int] = field(default_factory=dict)

    def say(self, text: str, **figures: int) -> None:
        self.text = text
        self.figures = figures


class Stage:
    """Shows a step: a progress bar, and the printed line after it. This one shows nothing."""

    @contextmanager
    def during(self, title: str) -> Iterator[None]:
        yield

    def after(self, step: Step) -> None:
        """Nobody watches."""


class Journal:
    """Runs steps in order and keeps what they reported."""

    def __init__(self, stage: Stage, seconds: Callable[[], float]) -> None:
        self._stage = stage
        self._seconds = seconds
        self.steps: list[Step] = []

    def step(self, title: str) -> AbstractContextManager[StepReport]:
        return self._step(title)

    @contextmanager
    def _step(self, title: str) -> Iterator[StepReport]:
        report = StepReport()
        start = self._seconds()
        with self._stage.during(title):
            yield report
        done = Step(title, report.text, round(self._seconds() - start, 3), report.figures)
        self.steps.append(done)
        self._stage.after(done)
