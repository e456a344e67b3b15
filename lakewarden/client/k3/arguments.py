"""The arguments of K3's calls: of the types that the calls declare, whoever calls them."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, wraps
from inspect import Signature, signature
from typing import Concatenate, ParamSpec, TypeVar, get_type_hints

import msgspec

from lakewarden.base.commit_metadata import attached
from lakewarden.errors import InvalidArgument

C = TypeVar("C")
P = ParamSpec("P")
A = TypeVar("A")


def checked(call: Callable[Concatenate[C, P], A]) -> Callable[Concatenate[C, P], A]:
    """The call, behind a look at the types of its arguments: what HTTP refuses in a request's body, Python refuses, too. What it
    commits carries its `user_metadata`.

    Raises:
        InvalidArgument: an argument is not of its declared type; the call has done nothing.
    """

    @wraps(call)
    def looked_at(self: C, /, *args: P.args, **kwargs: P.kwargs) -> A:
        shape, kinds = _declared(call)
        given = shape.bind(self, *args, **kwargs).arguments
        for name, value in list(given.items())[1:]:
            try:
                msgspec.convert(value, kinds[name])
            except msgspec.ValidationError as error:
                raise InvalidArgument(f"{call.__name__}: {name}: {error}") from error
        with attached(given.get("user_metadata")):
            return call(self, *args, **kwargs)

    return looked_at


@cache
def _declared(call: Callable[..., object]) -> tuple[Signature, dict[str, object]]:
    return signature(call), get_type_hints(call)
