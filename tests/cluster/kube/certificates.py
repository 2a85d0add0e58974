"""The cluster's own authority, made anew by every `up`; who shows a certificate of it is its common name."""

from __future__ import annotations

import base64
import datetime
import ipaddress
import json
import os
import re
from collections.abc import Sequence
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from cluster.kube import layout
from cluster.kube.problems import ClusterError

LIFE = datetime.timedelta(days=30)  # longer than a cluster of tests is up
ADMINISTRATORS = "system:masters"  # Kubernetes' group that may do everything

CA = layout.PKI / "ca.crt"
CA_KEY = layout.PKI / "ca.key"
SERVICE_ACCOUNT_KEY = layout.PKI / "service-account.key"


def make_authority() -> None:
    """The authority, and the key that signs the tokens of service accounts."""
    layout.PKI.mkdir(parents=True, exist_ok=True)
    key = ec.generate_private_key(ec.SECP256R1())
    name = _name("hora-test-cluster")
    builder = _builder(name, name, key.public_key())
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    # Python 3.13 and newer refuse an authority without these two.
    builder = builder.add_extension(_signs_certificates(), critical=True)
    builder = builder.add_extension(
        x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False
    )
    _write(CA_KEY, _pem(key))
    _write(CA, builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
    _write(SERVICE_ACCOUNT_KEY, _pem(ec.generate_private_key(ec.SECP256R1())))


def issue(common_name: str, groups: Sequence[str] = (), names: Sequence[str] = ()) -> tuple[bytes, bytes]:
    """Certificate and key of a client, and of a server when it has `names`: host names and addresses."""
    try:
        authority = x509.load_pem_x509_certificate(CA.read_bytes())
        signer = serialization.load_pem_private_key(CA_KEY.read_bytes(), None)
    except FileNotFoundError:
        raise ClusterError("there is no cluster to make a certificate for: scripts/cluster up") from None
    assert isinstance(signer, ec.EllipticCurvePrivateKey)
    key = ec.generate_private_key(ec.SECP256R1())
    builder = _builder(_name(common_name, groups), authority.subject, key.public_key())
    usage = [ExtendedKeyUsageOID.CLIENT_AUTH, *([ExtendedKeyUsageOID.SERVER_AUTH] if names else [])]
    builder = builder.add_extension(x509.ExtendedKeyUsage(usage), critical=False)
    signed_by = x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key())
    builder = builder.add_extension(signed_by, critical=False)
    if names:
        known_as = x509.SubjectAlternativeName([_alternative(name) for name in names])
        builder = builder.add_extension(known_as, critical=False)
    certificate = builder.sign(signer, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
    return certificate, _pem(key)


def issue_files(
    name: str, common_name: str, groups: Sequence[str], names: Sequence[str]
) -> tuple[Path, Path]:
    """The same in files of the PKI folder."""
    certificate, key = issue(common_name, groups, names)
    paths = layout.PKI / f"{name}.crt", layout.PKI / f"{name}.key"
    _write(paths[0], certificate)
    _write(paths[1], key)
    return paths


def kubeconfig(path: Path, user: str, groups: Sequence[str] = (), namespace: str = "default") -> Path:
    """A kubeconfig that holds all it needs; JSON is YAML too."""
    certificate, key = issue(user, groups)
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {
                "name": "hora-test",
                "cluster": {"server": layout.API_URL, "certificate-authority-data": _base64(CA.read_bytes())},
            }
        ],
        "users": [
            {
                "name": user,
                "user": {"client-certificate-data": _base64(certificate), "client-key-data": _base64(key)},
            }
        ],
        "contexts": [
            {
                "name": "hora-test",
                "context": {"cluster": "hora-test", "user": user, "namespace": namespace},
            }
        ],
        "current-context": "hora-test",
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    _write(path, json.dumps(content, indent=1).encode())
    return path


def user(name: str, groups: Sequence[str] = (), namespace: str = "default") -> Path:
    """A kubeconfig of a user who may do nothing until a Role is bound to the name or to a group."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,50}", name):
        raise ClusterError(f"{name!r} can't be a user here: letters, digits, '.', '_' and '-', at most 51")
    return kubeconfig(layout.USERS / f"{name}.kubeconfig", name, groups, namespace)


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.timezone.utc)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + LIFE)
    )


def _signs_certificates() -> x509.KeyUsage:
    unused = (
        "digital_signature",
        "content_commitment",
        "key_encipherment",
        "data_encipherment",
        "key_agreement",
    )
    return x509.KeyUsage(
        **dict.fromkeys((*unused, "encipher_only", "decipher_only"), False), key_cert_sign=True, crl_sign=True
    )


def _name(common_name: str, groups: Sequence[str] = ()) -> x509.Name:
    """Kubernetes reads the groups of a user from the organizations."""
    organizations = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
    return x509.Name([*organizations, x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _alternative(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    """In the older of two formats: the API server reads keys of service accounts in no other."""
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode()


def _write(path: Path, content: bytes) -> None:
    """At once or not at all, and for nobody else's eyes."""
    unfinished = path.with_name(f".{path.name}.new")
    with open(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(content)
    unfinished.rename(path)
