"""The keys of a profile in AWS's shared credentials file. obstore does not read it: both libraries get them as options."""

from __future__ import annotations

import configparser
import os
from collections.abc import Mapping

from lakewarden.errors import StorageRefused

_FILE = "~/.aws/credentials"
_KEYS = ("aws_access_key_id", "aws_secret_access_key", "aws_session_token")
_BEFORE = (
    "AWS_ACCESS_KEY_ID",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
    "AWS_SKIP_SIGNATURE",
)
"""Variables that say where credentials come from, and so come before a file."""


def environment_has_keys(environment: Mapping[str, str]) -> bool:
    """Whether the environment says where credentials come from, or that requests carry none."""
    return any(environment.get(name) for name in _BEFORE)


def profile_keys(environment: Mapping[str, str]) -> dict[str, str]:
    """Returns the keys of the profile that AWS_PROFILE names, or of `default`; empty where the environment says otherwise, or
    there is no such file.

    Raises:
        StorageRefused: AWS_PROFILE names a profile that has no keys there.
    """
    if environment_has_keys(environment):
        return {}
    named = environment.get("AWS_PROFILE")
    path = os.path.expanduser(environment.get("AWS_SHARED_CREDENTIALS_FILE") or _FILE)
    found = _read(path, named or "default")
    if named and not all(found.get(key) for key in _KEYS[:2]):
        raise StorageRefused(
            f"AWS_PROFILE is {named}, and {path} has no keys of that profile: other kinds of profiles are not read"
        )
    return found if found.get(_KEYS[0]) else {}


def _read(path: str, profile: str) -> dict[str, str]:
    parser = configparser.RawConfigParser()
    try:
        parser.read(path, encoding="utf-8")
    except (configparser.Error, UnicodeDecodeError) as error:
        raise StorageRefused(f"{path} is not a file of AWS's credentials: {type(error).__name__}") from error
    if not parser.has_section(profile):
        return {}
    keys = {key: parser.get(profile, key, fallback="") for key in _KEYS}
    return {key: value for key, value in keys.items() if value or key == _KEYS[2]}  # a token of the environment is another one's
