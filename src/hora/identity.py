"""The certificates of one run: its own CA, and one certificate each for lead, agents and clients.

Made by the caller, on the client's machine; the CA's key is thrown away at once, so nobody can add a
certificate later.  Pure data afterwards: it travels as JSON.
"""

from __future__ import annotations

from hora.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from datetime import datetime
    from typing import Any

    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec

BEFORE_DAYS = 30  # hosts whose clock is behind
AFTER_DAYS = 3650  # a run has no deadline of its own; the keys live as long as the run


class Pair(Record):
    """A certificate and its private key, PEM texts."""

    cert: str
    key: str

    def __repr__(self) -> str:
        return "Pair(…)"  # keys don't belong into logs and tracebacks


class Identity(Record):
    ca: str
    lead: Pair
    agent: Pair
    client: Pair

    def part(self, role: str) -> dict[str, str]:
        """What one process gets: `lead`, `agent` or `client`."""
        pair: Pair = getattr(self, role)
        return {"ca": self.ca, "cert": pair.cert, "key": pair.key}

    def to_json(self) -> dict[str, Any]:
        roles = {role: {"cert": pair.cert, "key": pair.key} for role, pair in self._pairs().items()}
        return {"ca": self.ca, **roles}

    def _pairs(self) -> dict[str, Pair]:
        return {"lead": self.lead, "agent": self.agent, "client": self.client}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Identity:
        pairs = {role: Pair(data[role]["cert"], data[role]["key"]) for role in ("lead", "agent", "client")}
        return cls(data["ca"], **pairs)


def make_identity(run: str, now: datetime) -> Identity:
    """New keys and certificates for the run `run`; `now` in UTC."""
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    ca = _certificate(f"hora run {run}", key, None, now)
    pairs = {role: _pair(role, (ca, key), now) for role in ("lead", "agent", "client")}
    return Identity(_pem(ca), **pairs)


def _pair(role: str, issuer: tuple[x509.Certificate, ec.EllipticCurvePrivateKey], now: datetime) -> Pair:
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    cert = _certificate(role, key, issuer, now)
    text = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return Pair(_pem(cert), text.decode("ascii"))


def _certificate(
    name: str,
    key: ec.EllipticCurvePrivateKey,
    issuer: tuple[x509.Certificate, ec.EllipticCurvePrivateKey] | None,  # None: the CA itself
    now: datetime,
) -> x509.Certificate:
    from datetime import timedelta

    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

    from hora.agent.uplink import SERVER_NAME

    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    issuer_key = issuer[1] if issuer is not None else key
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer[0].subject if issuer is not None else subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=BEFORE_DAYS))
        .not_valid_after(now + timedelta(days=AFTER_DAYS))
        .add_extension(x509.BasicConstraints(ca=issuer is None, path_length=0 if issuer is None else None), True)
        .add_extension(_usage(issuer is None), True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key()), False)
    )  # fmt: skip
    if name == "lead":
        builder = builder.add_extension(x509.SubjectAlternativeName([x509.DNSName(SERVER_NAME)]), False)
    if issuer is not None:
        oid = ExtendedKeyUsageOID.SERVER_AUTH if name == "lead" else ExtendedKeyUsageOID.CLIENT_AUTH
        builder = builder.add_extension(x509.ExtendedKeyUsage([oid]), False)
    return builder.sign(issuer_key, hashes.SHA256())


def _usage(ca: bool) -> x509.KeyUsage:
    from cryptography import x509

    return x509.KeyUsage(
        digital_signature=not ca,
        key_cert_sign=ca,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        crl_sign=False,
        encipher_only=False,
        decipher_only=False,
    )


def _pem(cert: x509.Certificate) -> str:
    from cryptography.hazmat.primitives import serialization

    return cert.public_bytes(serialization.Encoding.PEM).decode("ascii")
