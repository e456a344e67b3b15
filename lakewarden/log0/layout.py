"""Where a log partition's objects lie. Every key is created conditionally, once, and never overwritten."""

from __future__ import annotations

ROOT = "log"
_DIGITS = 20


def segments(log_id: str) -> str:
    return f"{ROOT}/{log_id}/segments"


def segment(log_id: str, position: int) -> str:
    return f"{segments(log_id)}/{position:0{_DIGITS}d}"


def cuts(log_id: str) -> str:
    return f"{ROOT}/{log_id}/cuts"


def cut(log_id: str, version: int) -> str:
    return f"{cuts(log_id)}/{version:0{_DIGITS}d}"


def carries(log_id: str) -> str:
    return f"{ROOT}/{log_id}/carry"


def carry(log_id: str, version: int, name: str) -> str:
    return f"{carries(log_id)}/{version:0{_DIGITS}d}/{name}"


def number(key: str) -> int:
    """The position or version that a segment's or cut's key ends in."""
    return int(key.rsplit("/", 1)[1])


def carry_version(key: str) -> int:
    """The version of the cut that a carry object was made for."""
    return int(key.rsplit("/", 2)[1])
