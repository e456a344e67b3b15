"""What every call does first: its id, who it is from, whether that user may have another; and its line in the log."""

from __future__ import annotations

import base64
import binascii
import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from urllib.parse import unquote

import grpc

from lakewarden.base.cancellation import Cancellation
from lakewarden.catalog.access import Principal
from lakewarden.serve.authority import RequestDeclined
from lakewarden.serve.common import Common, request_id_of
from lakewarden.serve.flight.messages import wrapped
from lakewarden.serve.flight.messages_pb2 import ErrorInfo, RequestInfo, Status
from lakewarden.serve.refusals import Refusal
from lakewarden.tables.freshness import Freshness, check_freshness

# Errors as statuses of gRPC: our code begins the message, and is a detail of its own for programs.
_LONGEST = 1000
"""Characters of a message. It comes in headers, of which clients take 8 KiB."""
_DETAILS = "grpc-status-details-bin"


def _shown(refusal: Refusal) -> str:
    cut = refusal.message if len(refusal.message) <= _LONGEST else f"{refusal.message[:_LONGEST]}…"
    return f"{refusal.code}: {cut}"


def _details(refusal: Refusal, status: grpc.StatusCode, request_id: str) -> tuple[str, bytes]:
    """The metadata that hold the code and the request id, as `google.rpc.Status` has them."""
    number: int = status.value[0]
    details = [ErrorInfo(reason=refusal.code, domain="lakewarden"), RequestInfo(request_id=request_id)]
    found = Status(code=number, message=_shown(refusal), details=[wrapped(one, "google.rpc.") for one in details])
    return _DETAILS, found.SerializeToString()


_LOG = logging.getLogger("lakewarden.serve")
_LIFE = timedelta(hours=12)
"""Of a token that a driver is given: a driver has no refresh token, so a connection ends with it."""
_REQUEST_ID, _NAMESPACE, _FRESHNESS = "x-request-id", "lakewarden-namespace", "lakewarden-freshness"
_KEY = "idempotency-key"


@dataclass(frozen=True)
class FlightCall:
    """A call that was admitted, with what its headers chose."""

    principal: Principal
    namespace: str | None
    freshness: Freshness | None
    cancellation: Cancellation
    """Of its queries: when the client cancels the call, or goes away."""
    key: str | None = None
    """The write's `idempotency-key`."""


@dataclass
class FlightRequest:
    """A call from its first moment on. `user` as soon as it is known."""

    id: str
    context: grpc.ServicerContext
    user: str = "-"

    @property
    def address(self) -> str:
        """`ipv4:192.0.2.1:50432` → `192.0.2.1`"""
        return unquote(self.context.peer()).partition(":")[2].rpartition(":")[0].strip("[]")

    def header(self, name: str) -> str:
        return next((str(value) for key, value in self.context.invocation_metadata() if key == name), "")


@contextmanager
def observed(common: Common, method: str, context: grpc.ServicerContext) -> Iterator[FlightRequest]:
    """Answers what the call raises as a status, counts it and writes its line; what was sent is in neither."""
    request = FlightRequest("", context)
    request.id = request_id_of(request.header(_REQUEST_ID), common.new_id)
    context.set_trailing_metadata(((_REQUEST_ID, request.id),))
    began, status = time.perf_counter(), "OK"
    try:
        with common.figures.running.track_inprogress():
            yield request
    except GeneratorExit:
        status = "CANCELLED"  # the client went away
        raise
    except Exception as error:  # noqa: BLE001  # the border: the client is told what is ours to tell, the log the rest
        refusal = Refusal.of(error)
        code = grpc.StatusCode[status := refusal.statuses.grpc]
        if code in (grpc.StatusCode.INTERNAL, grpc.StatusCode.DATA_LOSS, grpc.StatusCode.UNAVAILABLE):
            _LOG.error("%s %s: %s", request.id, refusal.code, error, exc_info=refusal.code == "INTERNAL")
        context.set_trailing_metadata(((_REQUEST_ID, request.id), _details(refusal, code, request.id)))
        context.abort(code, _shown(refusal))
    finally:
        common.figures.note(f"flight/{method}", status, began, request.id, request.user, "FLIGHT", method)


@contextmanager
def admitted(common: Common, method: str, context: grpc.ServicerContext) -> Iterator[FlightCall]:
    """A call with a token that works, counted among its user's calls for as long as it runs."""
    with observed(common, method, context) as request:
        token = common.authority.token_of(request.header("authorization") or None, request.address)
        principal = replace(token.principal, request_id=request.id)
        request.user = principal.user
        freshness = request.header(_FRESHNESS)
        with common.allowance.of(principal.user):
            cancellation = Cancellation()
            if not context.add_callback(cancellation.cancel):
                cancellation.cancel()  # it has ended already
            chosen = request.header(_NAMESPACE) or None, check_freshness(freshness) if freshness else None
            yield FlightCall(principal, *chosen, cancellation, request.header(_KEY) or None)


def connected(common: Common, request: FlightRequest) -> str:
    """The token for a connection, by a user's password or by a token of the client's own.

    Raises:
        Declined: neither works, or there were too many that did not.
    """
    authorization = request.header("authorization")
    scheme, _, text = authorization.partition(" ")
    if scheme.lower() != "basic":
        request.user = common.authority.token_of(authorization or None, request.address).principal.user
        return text
    try:
        padded = text + "=" * (-len(text) % 4)  # ADBC's driver leaves the padding out
        user, _, password = base64.b64decode(padded, validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError) as error:
        raise RequestDeclined(401, "'Authorization: Basic …' holds no user and password") from error
    granted = common.authority.login(user, password, request.address, _LIFE)
    request.user = user
    return granted.access_token
