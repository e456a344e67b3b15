"""The commands `serve` and `token`: the warehouse over HTTP, and a token for the operator."""

from __future__ import annotations

import sys
from datetime import timedelta
from pathlib import Path

import typer

from lakewarden.cli.context import invocation
from lakewarden.errors import InvalidArgument, LakewardenError, Unsupported


def register(app: typer.Typer) -> None:
    app.command()(serve)
    app.command()(token)


def serve(
    context: typer.Context,
    host: str = typer.Option("127.0.0.1", help="The address to listen at; 0.0.0.0 for all addresses of this machine."),
    port: int = typer.Option(8080, min=1, max=65535, help="The port to listen at."),
    flight_port: int | None = typer.Option(
        None, min=1, max=65535, help="The port of Arrow Flight SQL, for ADBC; by default it is not served."
    ),
    pg_port: int | None = typer.Option(
        None, min=1, max=65535, help="The port for PostgreSQL's clients; by default they are not served."
    ),
    workers: int = typer.Option(1, min=1, help="How many processes serve."),
    tls_cert: Path | None = typer.Option(None, help="The certificate for TLS, a PEM file; goes with --tls-key."),
    tls_key: Path | None = typer.Option(None, help="The key of the certificate, a PEM file."),
) -> None:
    """Serve the warehouse over HTTP, Arrow Flight SQL and PostgreSQL's protocol, for the catalog's users."""
    try:
        from lakewarden.serve.common import Listening
        from lakewarden.serve.run import check_free
        from lakewarden.serve.run import serve as start
    except ImportError as error:
        raise _extra_missing() from error
    if (tls_cert is None) != (tls_key is None):
        raise InvalidArgument("--tls-cert and --tls-key go together: the certificate and its key")
    for file in (tls_cert, tls_key):
        if file is not None and not file.is_file():
            raise InvalidArgument(f"{file} is not a file; TLS needs a certificate and its key as PEM files")
    call = invocation(context)
    with call.lake("serve", create=True):
        pass  # a warehouse that cannot be opened is one clear line here, not one for each process
    listening = Listening(host, port, flight_port, workers, tls_cert, tls_key, pg_port)
    check_free(listening)
    sys.stderr.write(f"{call.warehouse} at {' and '.join(listening.urls)}; {listening.urls[0]}/openapi.json lists the calls\n")
    start(call.warehouse, listening)


def token(
    context: typer.Context,
    user: str = typer.Option("root", help="The token's user."),
    role: str = typer.Option("system", help="The token's role: anonymous, user, service, dba or system."),
    minutes: int = typer.Option(60, min=1, max=1440, help="How long it works."),
) -> None:
    """Make a bearer token for `lakewarden serve`. Whoever may write the warehouse may make one; the user need not exist."""
    try:
        from lakewarden.serve.tokens import operator_token
    except ImportError as error:
        raise _extra_missing() from error
    call = invocation(context)
    with call.lake("token") as lake:
        made = operator_token(lake.warehouse, user, role, timedelta(minutes=minutes))
    if call.as_json:
        call.emit([{"token": made, "user": user, "role": role, "expires_in": minutes * 60}], empty="")
    else:
        sys.stdout.write(f"{made}\n")


def _extra_missing() -> LakewardenError:
    return Unsupported("the server's libraries are not installed: pip install 'lakewarden[serve]'")
