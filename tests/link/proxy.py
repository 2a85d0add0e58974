"""A way between agent and lead that can be cut: what networks do."""

from __future__ import annotations

import select
import socket
import threading

PASS, REFUSE, SWALLOW = "pass", "refuse", "swallow"


class Proxy:
    """`cut()` breaks what is open; `mode` REFUSE closes what comes; SWALLOW keeps all open and silent."""

    def __init__(self, port: int) -> None:
        self.target = port
        self.mode = PASS
        self.passed = 0
        self._server = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.port: int = self._server.getsockname()[1]
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        self._others: dict[socket.socket, socket.socket] = {}
        self._wake, self._waker = socket.socketpair()
        self._cut = self._closed = False
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def cut(self) -> None:
        self._cut = True
        self._waker.send(b"x")

    def set(self, mode: str, cut: bool = False) -> None:
        self.mode = mode
        self._cut = cut
        self._waker.send(b"x")

    def close(self) -> None:
        self._closed = True
        self._waker.send(b"x")
        self._thread.join(10)
        for sock in (self._server, self._wake, self._waker):
            sock.close()

    def _run(self) -> None:
        while not self._closed:
            watched = [self._server, self._wake]
            if self.mode != SWALLOW:
                watched += list(self._others)
            for sock in select.select(watched, [], [])[0]:
                if sock is self._server:
                    self._accept()
                elif sock is self._wake:
                    self._wake.recv(64)
                elif sock in self._others and self.mode == PASS and not self._cut:
                    self._move(sock)
            if self._cut:
                self._cut = False
                for sock in list(self._others):
                    self._drop(sock)
        for sock in list(self._others):
            self._drop(sock)

    def _accept(self) -> None:
        ours, _ = self._server.accept()
        if self.mode == REFUSE:
            ours.close()
            return
        if self.mode == SWALLOW:  # the way is open, nobody answers
            theirs = socket.socket()
        else:
            try:
                theirs = socket.create_connection(("127.0.0.1", self.target))
            except OSError:
                ours.close()
                return
        self._others[ours], self._others[theirs] = theirs, ours

    def _move(self, sock: socket.socket) -> None:
        try:
            data = sock.recv(65536)
            self._others[sock].sendall(data)
            self.passed += len(data)
        except OSError:
            data = b""
        if not data:
            self._drop(sock)

    def _drop(self, sock: socket.socket) -> None:
        other = self._others.pop(sock, None)
        if other is not None:
            self._others.pop(other, None)
            other.close()
        sock.close()
