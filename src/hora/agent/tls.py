"""TLS between the processes of one run: version 1.3 only, each side shows a certificate of this run's own CA.

An identity on the wire is JSON: {"ca", "cert", "key"}, PEM texts.  It comes on standard input and stays in
memory: never in an argument, a log or a file that others can open.
"""

from __future__ import annotations

import os
import ssl

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Mapping

AGENT = "agent"  # common names: what the bearer of a certificate may say in its first word
CLIENT = "client"


def lead_context(identity: Mapping[str, str]) -> ssl.SSLContext:
    """For the side that is dialled."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.verify_mode = ssl.CERT_REQUIRED
    # Nobody resumes: a ticket would cost two more records per connection, and wake clients that wait for a word.
    context.num_tickets = 0
    return _filled(context, identity)


def agent_context(identity: Mapping[str, str]) -> ssl.SSLContext:
    """For the side that dials: agents, and clients of the control channel."""
    return _filled(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), identity)  # verifies, and checks the name


def bearer(sock: Any) -> str:
    """The common name in the certificate that the other side has shown."""
    subject = (sock.getpeercert() or {}).get("subject", ())
    return next((value for part in subject for key, value in part if key == "commonName"), "")


def _filled(context: ssl.SSLContext, identity: Mapping[str, str]) -> ssl.SSLContext:
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.load_verify_locations(cadata=identity["ca"])
    _load_chain(context, (identity["cert"] + identity["key"]).encode("ascii"))
    return context


def _load_chain(context: ssl.SSLContext, pem: bytes) -> None:
    """The standard library takes a private key from a path only: give it one that nobody else can open."""
    if hasattr(os, "memfd_create") and os.path.isdir("/proc/self/fd"):
        fd = os.memfd_create("identity")
        try:
            os.write(fd, pem)
            context.load_cert_chain(f"/proc/self/fd/{fd}")
        finally:
            os.close(fd)
        return
    import tempfile

    with tempfile.NamedTemporaryFile(prefix="hora-") as file:  # mode 600; a memory file system is not at hand
        file.write(pem)
        file.flush()
        context.load_cert_chain(file.name)
