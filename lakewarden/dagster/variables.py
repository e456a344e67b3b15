"""Values that may be the name of an environment variable, as Dagster's own configuration has them."""

from __future__ import annotations

import dagster as dg

from lakewarden.errors import InvalidArgument


def value_of(text: str) -> str:
    """The text, or the value of the variable that it names.

    Args:
        text: a `dagster.EnvVar`, or a plain text.

    Raises:
        InvalidArgument: the variable is not set.
    """
    if not isinstance(text, dg.EnvVar):
        return text
    found = text.get_value()
    if found is None:
        raise InvalidArgument(f"the environment variable {text.env_var_name} is not set: set it, or give the value itself")
    return found
