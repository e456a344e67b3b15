"""`lakewarden serve` with a certificate."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address
from pathlib import Path

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from lakewarden import Lakehouse
from lakewarden.cli.main import main
from tests.fixtures.patience import PATIENCE
from tests.serve.http.program import free_port, program

pytestmark = pytest.mark.slow


@pytest.fixture
def place(tmp_path: Path) -> str:
    place = str(tmp_path / "w")
    Lakehouse.open(place).close()
    return place


def _certificate(folder: Path) -> tuple[Path, Path]:
    """A certificate for 127.0.0.1 that signs itself, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "lakewarden")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(IPv4Address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    files = folder / "cert.pem", folder / "key.pem"
    files[0].write_bytes(made.public_bytes(Encoding.PEM))
    files[1].write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    return files


def test_with_a_certificate_it_speaks_tls_alone(place: str, tmp_path: Path) -> None:
    certificate, key = _certificate(tmp_path)
    port = free_port()
    trusting = httpx.HTTPTransport(verify=ssl.create_default_context(cafile=certificate))
    with (
        program(place, port, "--tls-cert", str(certificate), "--tls-key", str(key)),
        httpx.Client(base_url=f"https://127.0.0.1:{port}", timeout=PATIENCE, transport=trusting) as client,
    ):
        assert client.get("/ready").json() == {"status": "ready"}
        with pytest.raises(httpx.TransportError):
            httpx.get(f"http://127.0.0.1:{port}/ready")
        with pytest.raises(httpx.ConnectError, match="CERTIFICATE_VERIFY_FAILED"):
            httpx.get(f"https://127.0.0.1:{port}/ready")


@pytest.mark.parametrize("given", [["--tls-cert"], ["--tls-key"], ["--tls-cert", "--tls-key"]])
def test_half_a_pair_or_no_file_is_one_clear_line(
    place: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], given: list[str]
) -> None:
    options = [part for option in given for part in (option, str(tmp_path / "absent.pem"))]
    with pytest.raises(SystemExit, match="1"):
        main(["--warehouse", place, "serve", *options])
    assert capsys.readouterr().err.startswith("INVALID_ARGUMENT: ")
