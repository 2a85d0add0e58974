"""The certificates of a run, and that their keys stay where they belong."""

from __future__ import annotations

import json
import os
import random
import socket
import ssl
import threading
import time
from datetime import datetime, timedelta, timezone

import pytest
from cryptography import x509

from helpers.runs import python, wait_until
from hora.agent import frames, tls
from hora.agent.channel import CHUNK, Channel
from hora.agent.loop import Loop
from hora.agent.uplink import SERVER_NAME
from hora.identity import Identity, make_identity
from link.mesh import Mesh, identity


def test_an_identity_travels_as_json_and_shows_no_key_in_its_repr() -> None:
    made = identity()
    assert Identity.from_json(json.loads(json.dumps(made.to_json()))) == made
    assert "PRIVATE" not in repr(made)


def test_certificates_hold_for_clocks_that_are_weeks_behind_and_runs_that_take_years() -> None:
    now = datetime(2030, 1, 1, tzinfo=timezone.utc)
    made = make_identity("ab12c", now)
    for text in (made.ca, made.lead.cert, made.agent.cert, made.client.cert):
        cert = x509.load_pem_x509_certificate(text.encode())
        assert cert.not_valid_before_utc <= now - timedelta(days=14)
        assert cert.not_valid_after_utc >= now + timedelta(days=365)


def test_a_lead_with_another_name_is_not_believed() -> None:
    made = identity()
    ours, theirs = socket.socketpair()
    with ours, theirs:
        server = tls.lead_context(made.part("lead"))
        ours.setblocking(False)
        incoming = server.wrap_socket(ours, server_side=True, do_handshake_on_connect=False)
        theirs.setblocking(False)
        outgoing = tls.agent_context(made.part("agent")).wrap_socket(
            theirs, server_hostname="somebody-else", do_handshake_on_connect=False
        )
        with incoming, outgoing, pytest.raises(ssl.SSLCertVerificationError, match="mismatch"):
            shake_hands(outgoing, incoming)


def shake_hands(*sides: ssl.SSLSocket) -> None:
    for _ in range(100):
        for side in sides:
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                pass


def test_the_key_is_read_without_memfd_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "memfd_create")
    context = tls.agent_context(identity().part("agent"))
    assert context.get_ca_certs()[0]["subject"] == ((("commonName", "hora run ab12c"),),)


@pytest.mark.leaks
def test_no_key_is_in_arguments_environments_files_or_logs(mesh: Mesh) -> None:
    mesh.lead(python("import os, time; print(sorted(os.environ)); time.sleep(600)"), members=1)
    mesh.host(0)
    mesh.until("running")
    status = mesh.status()
    assert status is not None
    pids = [pid for _name, pid in status.pids]
    pids += [rank.pid or 0 for member in status.members for rank in member.ranks]
    assert len(pids) == 4
    secrets = [pair.key.splitlines()[1].encode() for pair in (identity().lead, identity().agent)]
    wait_until(lambda: mesh.output(), "the rank's environment")
    seen = [f"/proc/{pid}/{name}" for pid in pids for name in ("cmdline", "environ")]
    seen += [os.path.join(at, name) for at, _folders, names in os.walk(mesh.work) for name in names]
    assert len(seen) > 12
    for path in seen:
        with open(path, "rb") as file:
            text = file.read()
        assert not any(secret in text for secret in secrets), path
    mesh.leads[0].terminate()
    mesh.ended()


def test_frames_of_all_sizes_pass_through_tls_in_order_however_slowly_they_are_read() -> None:
    loop, dice = Loop(), random.Random(5)
    left, right = socket.socketpair()
    for sock in (left, right):
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 8192)
    made, seen = identity(), []
    ends: list[str] = []
    receiver = Channel(
        loop, left, lambda header, body: seen.append((header["n"], body)), ends.append,
        tls=tls.lead_context(made.part("lead")), server_side=True,
    )  # fmt: skip
    sender = Channel(
        loop, right, lambda header, body: None, ends.append,
        tls=tls.agent_context(made.part("agent")), server_name=SERVER_NAME,
    )  # fmt: skip
    bodies = [
        dice.randbytes(dice.choice((0, 1, 100, 16_383, 16_384, 16_385, 100_000, 1_500_000)))
        for _ in range(150)
    ]
    waiting = list(enumerate(bodies))

    def more() -> None:
        while waiting and not sender.full:
            number, body = waiting.pop(0)
            sender.send({"t": "x", "n": number}, body)
            if dice.random() < 0.3:
                return

    sender.on_drain = more
    while len(seen) < len(bodies) and not ends:
        if dice.random() < 0.1:
            more()
        loop.after(0.001, lambda: None)  # turns also when nothing moves
        loop.turn()
    assert not ends
    assert seen == list(enumerate(bodies))
    sender.close()
    receiver.close()
    loop.close()


def test_a_host_that_has_much_to_say_leaves_others_their_turn() -> None:
    """It sends as fast as it is read: one turn of the loop must not last until it is done."""
    loop = Loop()
    left, right = socket.socketpair()
    made, frame = identity(), frames.encode({"t": "x"}, b"x" * 16_000)
    turns: list[int] = [0]  # bytes in each turn

    def hear(header: frames.Header, body: bytes) -> None:
        turns[-1] += len(body)
        time.sleep(0.0005)

    def send() -> None:
        context = tls.agent_context(made.part("agent"))
        with context.wrap_socket(right, server_hostname=SERVER_NAME) as sock:
            for _ in range(500):
                sock.sendall(frame)

    ends: list[str] = []
    context = tls.lead_context(made.part("lead"))
    receiver = Channel(loop, left, hear, ends.append, tls=context, server_side=True)
    thread = threading.Thread(target=send)
    thread.start()
    while not ends:
        turns.append(0)
        loop.after(0.01, lambda: None)
        loop.turn()
    thread.join()
    receiver.close()
    loop.close()
    assert sum(turns) == 500 * 16_000
    assert max(turns) <= 2 * CHUNK
