"""Finds where the records of a text end: at LF, CR LF or CR alone, as common readers of CSV do, but not inside quotes.

A quote opens a value only where the value begins; within one that has begun without it, it is a letter (`1,5" pipe`). Inside
quotes, two are one. So what a place is depends on what was before it, and is one of a few states: a piece of a large file can
be read alone once the pieces before it said in which state each of them ends.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

Places = np.ndarray[Any, np.dtype[np.int64]]

State = Literal["start", "value", "quoted", "quote", "return"]
"""Of a place: where a value begins, within one, inside quotes, behind a quote inside them, behind a CR outside of them."""

STATES: tuple[State, ...] = ("start", "value", "quoted", "quote", "return")
_LF, _CR, _QUOTE = b'\n\r"'


@dataclass(frozen=True)
class RecordForm:
    """How a text is cut into records."""

    quotes: bool = True
    """Whether quotes keep lines together."""
    delimiter: bytes = b","
    returns: bool = True
    """Whether a CR ends a line."""


CSV_LINES = RecordForm()
JSON_LINES = RecordForm(quotes=False, returns=False)


def breaks(data: bytes, form: RecordForm) -> Places:
    """The places behind each line break. A CR at the end of the data counts, whatever follows."""
    letters = np.frombuffer(data, np.uint8)
    found = np.flatnonzero(letters == _LF) + 1
    if not form.returns or b"\r" not in data:
        return found
    returns = np.flatnonzero(letters == _CR) + 1
    followed = np.append(letters, 0)[returns] == _LF
    return np.union1d(found, returns[~followed])


def record_ends(data: bytes, form: RecordForm, state: State) -> Places:
    """The places behind each record that ends in the data, which begins in a state."""
    found = breaks(data, form)
    if form.quotes and (state == "quoted" or b'"' in data):
        places, inside = _turns(data, form, state)
        found = found[(np.searchsorted(places, found) + inside) % 2 == 0]
    return found


def state_behind(data: bytes, form: RecordForm, state: State) -> State:
    """The state at the end of the data."""
    if not data:
        return state
    if form.quotes and (state == "quoted" or b'"' in data):
        places, inside = _turns(data, form, state)
        if (len(places) + inside) % 2:
            return "quoted"
        if len(places) and places[-1] == len(data) - 1:
            return "quote"
    last = data[-1:]
    if last == b"\r" and form.returns:
        return "return"
    return "start" if last in (b"\n", form.delimiter) else "value"


def _turns(data: bytes, form: RecordForm, state: State) -> tuple[Places, bool]:
    """The places of quotes that lead into quotes or out of them, and whether the data begins inside."""
    letters = np.frombuffer(data, np.uint8)
    places = np.flatnonzero(letters == _QUOTE)
    inside = state == "quoted"
    if len(places) and places[0] == 0 and state in ("value", "quote"):
        places = places[1:]  # a letter; or the second of two, that are one
        inside = state == "quote"
    openings = places[int(inside) :: 2]
    before = np.append(letters, _LF)[openings - 1]  # the beginning is where a value begins, else it is a letter
    begins = (before == form.delimiter[0]) | (before == _LF) | (before == _CR)
    begins[int(not inside) :] |= before[int(not inside) :] == _QUOTE  # the second of two; the first of all is of none
    if not begins.all():
        return np.array(_turns_one_by_one(data, form, places, inside), np.int64), inside
    return places, inside


def _turns_one_by_one(data: bytes, form: RecordForm, places: Places, inside: bool) -> list[int]:
    """The same where some quotes are letters."""
    begins = (*form.delimiter, _LF, _CR)
    found: list[int] = []
    doubled = -1
    for place in places.tolist():
        if inside:
            inside = False
            found.append(place)
            doubled = place + 1
        elif place == 0 or data[place - 1] in begins or place == doubled:
            inside = True
            found.append(place)
    return found
