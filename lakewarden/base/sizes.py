"""Writes numbers of bytes as people read them."""

from __future__ import annotations

_STEP = 1024
_UNITS = ("KiB", "MiB", "GiB", "TiB", "PiB", "EiB")


def in_units(size: int) -> str:
    """`790 B`, `1.5 KiB`, `252.0 GiB`: bytes in the largest unit of which there is at least one, to a tenth."""
    if abs(size) < _STEP:
        return f"{size} B"
    scaled, units = size / _STEP, iter(_UNITS)
    unit = next(units)
    while abs(round(scaled, 1)) >= _STEP and (larger := next(units, None)):
        scaled, unit = scaled / _STEP, larger
    return f"{scaled:,.1f} {unit}"
