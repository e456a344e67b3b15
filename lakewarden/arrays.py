"""Makes Arrow arrays from buffers.

`pa.array` imports pandas where that is installed, which takes a command half a second.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray


def texts(values: Collection[str]) -> pa.Array[Any]:
    """Returns an array of strings."""
    encoded = [value.encode() for value in values]
    ends = np.zeros(len(encoded) + 1, np.int32)
    np.cumsum([len(each) for each in encoded], out=ends[1:])
    return pa.StringArray.from_buffers(len(encoded), pa.py_buffer(ends.data), pa.py_buffer(b"".join(encoded)))


def numbers(values: NDArray[np.int64]) -> pa.Array[Any]:
    """Returns an array of 64-bit integers, which shares the memory of `values` where that is contiguous."""
    found = np.ascontiguousarray(values, np.int64)
    return pa.Array.from_buffers(pa.int64(), len(found), [None, pa.py_buffer(found.data)])
