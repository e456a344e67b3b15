"""Explains a store's failure in one sentence without XML, from the text that obstore and delta-rs report."""

from __future__ import annotations

import re
from dataclasses import dataclass

from lakewarden.errors import AccessRefused, NoBucket, StorageRefused, StorageUnavailable, Unreachable

_ENDPOINT = re.compile(r"Error performing \w+ (https?://[^/\s?]+)")
_TOKENS = r"InvalidTokenId|InvalidToken\b|ExpiredToken|TokenRefreshRequired|InvalidSecurity"
_NO_CREDENTIALS = "no credentials: the environment has none, and no role of the machine gives any; set"
_KNOWN: list[tuple[re.Pattern[str], type[StorageRefused | StorageUnavailable], str]] = [
    (
        re.compile(r"169\.254\.169\.254/computeMetadata|metadata\.google\.internal"),
        StorageRefused,
        f"{_NO_CREDENTIALS} GOOGLE_APPLICATION_CREDENTIALS",
    ),
    (
        re.compile(r"169\.254\.169\.254/metadata/identity"),
        StorageRefused,
        f"{_NO_CREDENTIALS} AZURE_STORAGE_ACCOUNT_KEY, or another credential of the account",
    ),
    (
        re.compile(r"169\.254\.169\.254/latest|169\.254\.170\.2/"),
        StorageRefused,
        f"{_NO_CREDENTIALS} AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
    ),
    (re.compile(r"NoSuchBucket|ContainerNotFound|The specified bucket does not exist"), NoBucket, "there is no such bucket"),
    (re.compile(r"InvalidBucketName"), StorageRefused, "the store does not accept this as the name of a bucket"),
    (
        re.compile(r"Account must be specified"),
        StorageRefused,
        "neither the URI nor AZURE_STORAGE_ACCOUNT_NAME says which account",
    ),
    (
        re.compile(rf"InvalidAccessKeyId|SignatureDoesNotMatch|AuthenticationFailed|\b401 Unauthorized|{_TOKENS}"),
        AccessRefused,
        "the store does not accept these credentials",
    ),
    (
        re.compile(r"AccessDenied|AuthorizationPermissionMismatch|\b403 Forbidden"),
        AccessRefused,
        "these credentials do not permit that",
    ),
    (
        re.compile(r"performing HEAD \S+ in [^:]*status code: 400\b"),
        AccessRefused,
        "the store refuses the request and, as the answer has no body, does not say why: its credentials may have expired",
    ),
    (re.compile(r"PermanentRedirect|AuthorizationHeaderMalformed"), StorageRefused, "the bucket is in another region"),
    (
        re.compile(r"Generic Config error: (?P<detail>[^\n]+)"),
        StorageRefused,
        "the environment has a setting that cannot be used",
    ),
    (
        re.compile(r"RequestTimeout\b|IncompleteBody|BadDigest|XAmzContentSHA256Mismatch"),
        StorageUnavailable,
        "a request was cut off",
    ),
    (re.compile(r"status code: (?:400|405|501)\b"), StorageRefused, "the store does not know such a request"),
    (re.compile(r"dns error|failed to lookup address|Name or service not known"), Unreachable, "there is no such host"),
    (re.compile(r"Connection refused|ConnectionRefused"), Unreachable, "nothing listens there"),
    (re.compile(r"operation timed out|TimedOut|deadline has elapsed"), Unreachable, "it does not answer"),
    (re.compile(r"error trying to connect|\bConnect\b"), Unreachable, "it cannot be reached"),
    (re.compile(r"error sending request"), StorageUnavailable, "it cannot be reached"),
    (
        re.compile(r"after [1-9]\d* retries|HTTP error|non-2xx status code: 5\d\d|error decoding response"),
        StorageUnavailable,
        "it keeps failing",
    ),
]
"""The text of the store or the network, the error that it means, and the sentence for it."""


@dataclass(frozen=True)
class Failure:
    reason: str
    error: type[StorageRefused | StorageUnavailable]


def failure_of(text: str) -> Failure | None:
    """Returns what the text means, with the endpoint of the request; None when the text is not recognized."""
    for pattern, error, reason in _KNOWN:
        if found := pattern.search(text):
            if "detail" in found.groupdict():
                return Failure(f"{reason}: {found['detail']}", error)
            endpoint = None if reason.startswith(_NO_CREDENTIALS) else _ENDPOINT.search(text)  # that of the machine's role
            return Failure(f"{reason} ({endpoint[1]})" if endpoint else reason, error)
    return None
