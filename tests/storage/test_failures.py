"""What the texts of stores mean; those of missing credentials are as obstore reports them."""

from __future__ import annotations

import pytest

from lakewarden.errors import AccessRefused, LakewardenError, StorageRefused, StorageUnavailable
from lakewarden.storage.clients import failure_of

_DENIED = "in 47.4ms - Server returned non-2xx status code: 403 Forbidden"
_AZURE = "http://169.254.169.254/metadata/identity/oauth2/token"
_GCS = "computeMetadata/v1/instance/service-accounts/default/token?audience=https%3A%2F%2Fwww.googleapis.com"


@pytest.mark.parametrize(
    ("text", "variable"),
    [
        (f"Generic S3 error: Error performing PUT http://169.254.169.254/latest/api/token {_DENIED}", "AWS_ACCESS_KEY_ID"),
        (f"Generic S3 error: Error performing GET http://169.254.170.2/v2/credentials/1 {_DENIED}", "AWS_ACCESS_KEY_ID"),
        (f"Error performing token request: Error performing GET http://169.254.169.254/{_GCS} {_DENIED}", "GOOGLE_APPLICATION"),
        (
            f"Error performing token request: Error performing GET {_AZURE} {_DENIED}",
            "AZURE_STORAGE_ACCOUNT_KEY",
        ),
    ],
)
def test_missing_credentials_are_named_and_not_the_address_that_was_asked_for_some(text: str, variable: str) -> None:
    found = failure_of(text)
    assert found is not None
    assert found.error is StorageRefused
    assert variable in found.reason
    assert "169.254" not in found.reason


def test_a_refusal_of_the_store_itself_names_its_endpoint() -> None:
    found = failure_of("Generic S3 error: Error performing GET http://store.example:9000/lake/x in 1ms - 403 Forbidden")
    assert found is not None
    assert found.reason == "these credentials do not permit that (http://store.example:9000)"


_ANSWERED = "http://store.example:9000/lake/x in 194.2µs - Server returned non-2xx status code:"


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (f"Generic S3 error: Error performing HEAD {_ANSWERED} 400 Bad Request: ", AccessRefused),
        (f"Generic S3 error: Error performing GET {_ANSWERED} 400 Bad Request: <Code>ExpiredToken</Code>", AccessRefused),
        (f"Generic S3 error: Error performing PUT {_ANSWERED} 400 Bad Request: <Code>InvalidArgument</Code>", StorageRefused),
        (f"Generic S3 error: Error performing PUT {_ANSWERED} 501 Not Implemented: <Code>NotImplemented</Code>", StorageRefused),
        (f"Generic S3 error: Error performing PUT {_ANSWERED} 400 Bad Request: <Code>RequestTimeout</Code>", StorageUnavailable),
        (f"Generic S3 error: Error performing PUT {_ANSWERED} 400 Bad Request: <Code>IncompleteBody</Code>", StorageUnavailable),
        (f"Generic S3 error: Error performing HEAD {_ANSWERED} 500 Internal Server Error: ", StorageUnavailable),
        ('Generic Config error: failed to parse "maybe" as boolean', StorageRefused),
    ],
)
def test_an_answer_says_whether_another_try_may_help(text: str, error: type[LakewardenError]) -> None:
    found = failure_of(text)
    assert found is not None
    assert found.error is error
