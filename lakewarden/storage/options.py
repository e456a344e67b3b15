"""Turns a location into the options of obstore and of delta-rs.

Both read from the environment what is not given here. A storage with credentials of its own must not be
mixed with those: an option that would come from the environment, such as a session token, is set to empty, and
the endpoint is spelled so that it overrides every variable (AWS_ENDPOINT_URL_S3 overrides `aws_endpoint`).
"""

from __future__ import annotations

import configparser
import os
from collections.abc import Mapping
from urllib.parse import urlsplit

from lakewarden.base.connection import Connection, Location
from lakewarden.errors import StorageRefused

# The keys of a profile in AWS's shared credentials file. obstore does not read it: both libraries get them as options.
_PROFILES = "~/.aws/credentials"
_PROFILE_KEYS = ("aws_access_key_id", "aws_secret_access_key", "aws_session_token")
_BEFORE_PROFILES = (
    "AWS_ACCESS_KEY_ID",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
    "AWS_SKIP_SIGNATURE",
)
"""Variables that say where credentials come from, and so come before a file."""


def environment_has_keys(environment: Mapping[str, str]) -> bool:
    """Whether the environment says where credentials come from, or that requests carry none."""
    return any(environment.get(name) for name in _BEFORE_PROFILES)


def profile_keys(environment: Mapping[str, str]) -> dict[str, str]:
    """Returns the keys of the profile that AWS_PROFILE names, or of `default`; empty where the environment says otherwise, or
    there is no such file.

    Raises:
        StorageRefused: AWS_PROFILE names a profile that has no keys there.
    """
    # The order of AWS's own tools: variables come before the file.
    if environment_has_keys(environment):
        return {}
    named = environment.get("AWS_PROFILE")
    path = os.path.expanduser(environment.get("AWS_SHARED_CREDENTIALS_FILE") or _PROFILES)
    found = _read(path, named or "default")
    if named and not all(found.get(key) for key in _PROFILE_KEYS[:2]):
        raise StorageRefused(
            f"AWS_PROFILE is {named}, and {path} has no keys of that profile: other kinds of profiles are not read"
        )
    return found if found.get(_PROFILE_KEYS[0]) else {}


def _read(path: str, profile: str) -> dict[str, str]:
    parser = configparser.RawConfigParser()
    try:
        parser.read(path, encoding="utf-8")
    except (configparser.Error, UnicodeDecodeError) as error:
        raise StorageRefused(f"{path} is not a file of AWS's credentials: {type(error).__name__}") from error
    if not parser.has_section(profile):
        return {}
    keys = {key: parser.get(profile, key, fallback="") for key in _PROFILE_KEYS}
    return {
        key: value for key, value in keys.items() if value or key == _PROFILE_KEYS[2]
    }  # a token of the environment is another one's


ANSWERS_WITHIN = "8s"
"""A store that does not answer for this long is down: the operation ends with a clear error, and may be tried again."""
CONNECTS_WITHIN = "3s"
RETRIES = 4
RETRIES_WITHIN_SECONDS = 8

_ENDPOINT = "aws_endpoint_url_s3"
"""delta-rs knows it by the name without `_s3`, too: without that one it asks Amazon's network for a region, whatever it has."""

_S3_KEYS = {
    "ACCESS_KEY_ID": "aws_access_key_id",
    "SECRET_ACCESS_KEY": "aws_secret_access_key",
    "SESSION_TOKEN": "aws_session_token",
}
_S3A_KEYS = {"ACCESS_KEY_ID": "access.key", "SECRET_ACCESS_KEY": "secret.key", "SESSION_TOKEN": "session.token"}
_AZURE_KEYS = {"STORAGE_ACCOUNT_NAME": "azure_storage_account_name", "STORAGE_ACCOUNT_KEY": "azure_storage_account_key"}
_GCS_KEYS = {"APPLICATION_CREDENTIALS": "google_application_credentials"}
_KEYS = {"s3": _S3_KEYS, "gs": _GCS_KEYS, "az": _AZURE_KEYS, "abfs": _AZURE_KEYS, "abfss": _AZURE_KEYS}
_BOTO = {"endpoint_url": _ENDPOINT, "region_name": "aws_region"} | {key: key for key in _S3_KEYS.values()}
_OPTIONAL = frozenset({"SESSION_TOKEN"})

_CONDITIONAL = "AWS_CONDITIONAL_PUT"

_ENDPOINTS = ("AZURE_STORAGE_ENDPOINT", "AZURE_ENDPOINT", "AZURITE_BLOB_STORAGE_URL", "GOOGLE_BASE_URL")
"""Variables that name the endpoint of other stores than S3."""

_ANY_REGION = "us-east-1"
"""For stores other than AWS, which ignore it."""

_AMAZON = (".amazonaws.com", ".api.aws")
"""How the hosts of its own stores end."""

_PROVIDERS = ",".join(
    [
        "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider",
        "software.amazon.awssdk.auth.credentials.EnvironmentVariableCredentialsProvider",
        "software.amazon.awssdk.auth.credentials.ProfileCredentialsProvider",
    ]
)
"""Of Hadoop's own chain those that ask nobody, and the profiles that obstore and delta-rs get, too."""

_DELTA = {
    "timeout": ANSWERS_WITHIN,  # of a whole request: delta-rs has no other timeout, and moves no large objects itself
    "connect_timeout": CONNECTS_WITHIN,
    "max_retries": str(RETRIES),
    "retry_timeout": f"{RETRIES_WITHIN_SECONDS}s",
}


def store_options(location: Location, environment: Mapping[str, str]) -> dict[str, str]:
    """Returns the endpoint and credentials as options that obstore and delta-rs share; empty for what the environment sets.

    Raises:
        StorageRefused: the environment lacks what the location's credentials refer to, or has no credentials for a store that is
            not Amazon's, or turns conditional writes off.
    """
    scheme = location.uri.partition("://")[0]
    if scheme not in _KEYS:
        return {}
    _check_conditional(scheme, location, environment)
    addressed = _s3_address(location, environment) if scheme == "s3" else _address(scheme, location.connection)
    if scheme == "s3" and not location.connection.credentials:
        return addressed | _found_keys(location, environment)
    return addressed | _credentials(scheme, location, environment)


def _found_keys(location: Location, environment: Mapping[str, str]) -> dict[str, str]:
    """The keys of a profile, where the environment has none. Without either, the libraries ask Amazon's network for the role of
    the machine (169.254.169.254), which other stores know nothing of.

    Raises:
        StorageRefused: there are no keys, and the store is not Amazon's.
    """
    keys = profile_keys(environment)
    endpoint, _, _ = _s3_named(location.connection, environment)
    # The role of a machine is looked for at an address of Amazon's network, where requests hang elsewhere.
    if keys or not _is_others(endpoint) or environment_has_keys(environment):
        return keys
    raise StorageRefused(
        f"cannot reach {location}: no credentials for {endpoint}: the environment has none; set AWS_ACCESS_KEY_ID and"
        " AWS_SECRET_ACCESS_KEY, or AWS_SKIP_SIGNATURE=true for a store that takes requests without a signature"
    )


def _is_others(endpoint: str) -> bool:
    """Whether it is a store that only speaks S3."""
    # Amazon's regions in China end in `.amazonaws.com.cn`.
    host = (urlsplit(endpoint).hostname or "").removesuffix(".cn")
    return bool(endpoint) and not host.endswith(_AMAZON)


def _check_conditional(scheme: str, location: Location, environment: Mapping[str, str]) -> None:
    if scheme == "s3" and environment.get(_CONDITIONAL, "").strip().lower() == "disabled":
        raise StorageRefused(
            f"cannot use {location}: {_CONDITIONAL}=disabled turns off conditional writes (If-None-Match), without which two"
            " writers overwrite each other's objects; unset it"
        )


def address_of(location: Location, environment: Mapping[str, str]) -> str:
    """Returns what tells one store from another: the place, and the endpoint at which it is reached."""
    if location.uri.startswith("s3://"):
        return f"{location} {_s3_named(location.connection, environment)[0]}".strip()
    named = location.connection.endpoint or " ".join(environment.get(name, "") for name in _ENDPOINTS)
    return f"{location} {named}".strip()


def delta_options(location: Location, environment: Mapping[str, str]) -> dict[str, str]:
    """Returns the `storage_options` of `DeltaTable` and the writers; empty for a directory."""
    scheme, separator, _ = location.uri.partition("://")
    if not separator or scheme == "file":
        return {}
    conditional = {"conditional_put": "etag"} if scheme == "s3" else {}
    options = store_options(location, environment)
    http = {"allow_http": "true"} if scheme == "gs" and allows_http(options, environment) else {}
    # Without this name delta-rs asks Amazon's network for the region first.
    named = {"aws_endpoint_url": options[_ENDPOINT]} if _ENDPOINT in options else {}
    return _DELTA | conditional | http | options | named


def allows_http(options: Mapping[str, str], environment: Mapping[str, str]) -> bool:
    """Whether a bucket of Google's is reached without TLS, as an emulator is. Of S3 and Azure `store_options` says it; obstore
    takes no such option of Google's, and has it among those of its client.
    """
    endpoint = options.get("google_base_url") or environment.get("GOOGLE_BASE_URL", "")
    return endpoint.startswith("http://")


def boto_options(location: Location, environment: Mapping[str, str]) -> dict[str, str]:
    """Returns the same for `boto3.client("s3", …)`. Raises as `store_options`."""
    options = store_options(location, environment)
    return {name: options[option] for name, option in _BOTO.items() if options.get(option)}


def s3a_options(location: Location, environment: Mapping[str, str]) -> dict[str, str]:
    """Returns the same for Hadoop's `s3a://`, by bucket. A credential is given as the name of its variable, which Hadoop
    reads where it uses it. Without a reference Hadoop's own chain applies; for other stores than Amazon's, those parts of it
    that do not look for the role of a machine. Raises as `store_options`.
    """
    bucket = location.uri.partition("://")[2].partition("/")[0]
    endpoint, region, path_style = _s3_named(location.connection, environment)
    named = {"endpoint": endpoint, "endpoint.region": region, "path.style.access": str(path_style).lower()}
    if _is_others(endpoint) and not location.connection.credentials:
        named["aws.credentials.provider"] = _PROVIDERS
    prefix = location.connection.credentials.removeprefix("env:")
    given = _credentials("s3", location, environment)
    # References and no values: no credential stands in Spark's settings.
    keys = {_S3A_KEYS[end]: f"${{env.{prefix}_{end}}}" for end, option in _S3_KEYS.items() if given.get(option)}
    return {f"fs.s3a.bucket.{bucket}.{name}": value for name, value in (named | keys).items() if value}


def _s3_named(connection: Connection, environment: Mapping[str, str]) -> tuple[str, str, bool]:
    """Returns the endpoint and region (empty for the platform's own) and whether the bucket is in the path."""
    named = environment.get("AWS_ENDPOINT_URL_S3") or environment.get("AWS_ENDPOINT_URL") or environment.get("AWS_ENDPOINT")
    endpoint = (connection.endpoint or named or "").rstrip("/")
    region = connection.region or environment.get("AWS_REGION") or environment.get("AWS_DEFAULT_REGION")
    path_style = bool(endpoint) if connection.path_style is None else connection.path_style
    return endpoint, region or (_ANY_REGION if endpoint else ""), path_style


def _s3_address(location: Location, environment: Mapping[str, str]) -> dict[str, str]:
    connection = location.connection
    endpoint, region, path_style = _s3_named(connection, environment)
    # both libraries read the environment themselves
    options = {"aws_region": region} if region and (connection.region or not _has_region(environment)) else {}
    if endpoint:
        options[_ENDPOINT] = endpoint if path_style else _with_bucket(endpoint, location)
        options["aws_allow_http"] = str(endpoint.startswith("http://")).lower()
    if endpoint or connection.path_style is not None:
        options["aws_virtual_hosted_style_request"] = str(not path_style).lower()
    return options


def _has_region(environment: Mapping[str, str]) -> bool:
    return bool(environment.get("AWS_REGION") or environment.get("AWS_DEFAULT_REGION"))


def _with_bucket(endpoint: str, location: Location) -> str:
    """Both libraries treat an endpoint of the virtual-hosted style as the bucket's own."""
    scheme, _, host = endpoint.partition("://")
    return f"{scheme}://{location.uri.partition('://')[2].partition('/')[0]}.{host}"


def _address(scheme: str, connection: Connection) -> dict[str, str]:
    if not connection.endpoint:
        return {}
    endpoint = connection.endpoint.rstrip("/")
    if scheme == "gs":
        return {"google_base_url": endpoint}
    return {"azure_endpoint": endpoint, "azure_allow_http": str(endpoint.startswith("http://")).lower()}


def _credentials(scheme: str, location: Location, environment: Mapping[str, str]) -> dict[str, str]:
    reference = location.connection.credentials
    if not reference:
        return {}
    prefix = reference.removeprefix("env:")
    names = _KEYS[scheme]
    missing = [f"{prefix}_{end}" for end in names if end not in _OPTIONAL and not environment.get(f"{prefix}_{end}")]
    if missing:
        raise StorageRefused(
            f"cannot reach {location}: its credentials are {reference}, and {missing[0]} is not in the environment"
        )
    return {option: environment.get(f"{prefix}_{end}", "") for end, option in names.items()}
