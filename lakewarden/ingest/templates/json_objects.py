"""Takes the objects of a JSON text one after the other, without the text as a whole."""

from __future__ import annotations

import codecs
import json
from collections.abc import Iterator
from typing import BinaryIO, NoReturn, cast

from lakewarden.base.exact_json import JsonNumber, once_each
from lakewarden.errors import InvalidArgument
from lakewarden.ingest.templates.object_file import ObjectFile

Record = dict[str, object]

_BLOCK_BYTES = 1 << 20
_GROUP_ROWS = 1 << 13
_GROUP_CHARACTERS = 4 << 20
_SPACE = " \t\r\n"
_BOM = "\ufeff"


def groups(source: ObjectFile) -> Iterator[list[Record]]:
    """The objects in order, in lists of some thousands.

    Raises:
        InvalidArgument: the text is not JSON in UTF-8, not one object after the other and no array of them, or nested too deeply.
        Unsupported: it unpacks to too much.
    """
    text = _Text(source.unpacked(), source.value_bytes)
    found: list[Record] = []
    begin = 0
    for record in _records(text):
        found.append(record)
        if len(found) >= _GROUP_ROWS or text.passed - begin > _GROUP_CHARACTERS:
            yield found
            found, begin = [], text.passed
    if found:
        yield found


def _records(text: _Text) -> Iterator[Record]:
    sign = text.next_sign()
    array = sign == "["
    if array:
        text.step()
        sign = text.next_sign()
    while sign and not (array and sign == "]"):
        if sign != "{":
            raise InvalidArgument(f"object {text.count + 1} is expected, and there is {sign!r}")
        yield text.record()
        sign = text.next_sign()
        if array and sign != "]":
            if sign != ",":
                raise InvalidArgument(f"',' or ']' is expected after object {text.count}, and there is {sign or 'the end'!r}")
            text.step()
            sign = text.next_sign()
    if array:
        if not sign:
            raise InvalidArgument(f"the array ends within, after object {text.count}")
        text.step()
        if sign := text.next_sign():
            raise InvalidArgument(f"there is {sign!r} behind the array")


class _Text:
    """The text from a place on."""

    def __init__(self, file: BinaryIO, most: int) -> None:
        self._file = file
        self._most = most
        self._decode = codecs.getincrementaldecoder("utf-8")().decode
        self._decoder = json.JSONDecoder(parse_float=_number, parse_constant=_refuse, object_pairs_hook=once_each)
        self._held = ""
        self._at = 0
        self._dropped = 0
        self.count = 0
        """Of objects so far."""
        if self.next_sign() == _BOM:
            self.step()

    @property
    def passed(self) -> int:
        """Characters before the place."""
        return self._dropped + self._at

    def step(self) -> None:
        self._at += 1

    def next_sign(self) -> str:
        """Passes white space; the sign behind it, or nothing at the end."""
        while True:
            while self._at < len(self._held):
                if (sign := self._held[self._at]) not in _SPACE:
                    return sign
                self._at += 1
            if not self._more():
                return ""

    def record(self) -> Record:
        """The object that begins at the place, which moves behind it."""
        while True:
            try:
                found, self._at = self._decoder.raw_decode(self._held, self._at)
            except json.JSONDecodeError as error:
                if not self._more():
                    raise InvalidArgument(f"object {self.count + 1} is not JSON: {error.msg}") from error
            except RecursionError as error:
                raise InvalidArgument(f"object {self.count + 1} is nested too deeply") from error
            except ValueError as error:  # a number out of any range, or a key twice
                raise InvalidArgument(f"object {self.count + 1}: {error}") from error
            else:
                self.count += 1
                return cast("Record", found)

    def _more(self) -> bool:
        """Takes a further block; whether there was one."""
        left = len(self._held) - self._at
        if left > self._most:
            raise InvalidArgument(f"object {self.count + 1} has more than the {self._most:,} bytes that are allowed, or no end")
        data = self._file.read(max(_BLOCK_BYTES, left))  # twice as much each time: an object is decoded from its beginning
        try:
            text = self._decode(data, not data)
        except UnicodeDecodeError as error:
            raise InvalidArgument(f"the object is not text in UTF-8: {error.reason}, after object {self.count}") from error
        self._dropped += self._at
        self._held, self._at = self._held[self._at :] + text, 0
        return bool(data)


def _number(text: str) -> JsonNumber:
    found = JsonNumber(text)
    if found.nearest is None:
        raise ValueError(f"{text:.40} is out of the range of 64 bits")
    return found


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")
