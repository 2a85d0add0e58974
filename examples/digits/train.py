"""Trains a digit classifier on several ranks: a small neural network, gradients summed by a ring all-reduce.

Standard library only, so that it runs anywhere.  Every rank draws noisy digits of its own and computes the
gradient on them; then all ranks add their gradients up over sockets, each talking to its two neighbours, as
NCCL and Gloo do.  `hora run -n 4 python3 train.py` starts four ranks; without Hora it trains as one.
"""

import array
import hashlib
import math
import os
import random
import socket
import sys
import time
from operator import mul

RANK = int(os.environ.get("HORA_RANK", "0"))
WORLD = int(os.environ.get("HORA_WORLD_SIZE", "1"))
PEERS = os.environ.get("HORA_PEERS", "").split(",")  # host:port of every rank, in order

EPOCHS, RATE, MOMENTUM = 10, 0.2, 0.8
IMAGES, BATCH, UNSEEN = 320, 16, 250  # per rank
SIDE, HIDDEN = 8, 20
INPUTS = SIDE * SIDE + 1  # the last one is always 1: its weight is the bias

# Ten glyphs of 5 x 7 pixels, a byte per row.
GLYPHS = bytes.fromhex(
    "0e11131519110e 040c040404040e 0e11010204081f 1f02040201110e 02060a121f0202"
    "1f101e0101110e 0608101e11110e 1f010204080808 0e11110e11110e 0e11110f01020c"
)


class Ring:
    """Sockets to the next and from the previous rank."""

    SLICE = 16384  # every rank sends, then receives: what it sends must fit into the socket's buffer

    def __init__(self, peers):
        host, port = address(peers[RANK])
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        with socket.create_server((host, port), family=family) as server:
            self.next = dial(peers[(RANK + 1) % WORLD])
            self.previous, _ = server.accept()
        self.next.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def pass_on(self, data):
        """Give data to the next rank, get as many bytes from the previous one."""
        received = bytearray()
        for start in range(0, len(data), self.SLICE):
            part = data[start : start + self.SLICE]
            self.next.sendall(part)
            while len(received) < start + len(part):
                piece = self.previous.recv(start + len(part) - len(received))
                if not piece:
                    raise ConnectionError(f"rank {(RANK - 1) % WORLD} has left the ring")
                received += piece
        return bytes(received)

    def sum(self, values):
        """The sum of the values of all ranks, number by number; the same on every rank to the last bit."""
        size = -(-len(values) // WORLD)
        padded = list(values) + [0.0] * (size * WORLD - len(values))
        chunks = [array.array("d", padded[i * size : (i + 1) * size]) for i in range(WORLD)]
        for step in range(WORLD - 1):  # reduce-scatter: after it this rank has the sum of one chunk
            received = array.array("d", self.pass_on(chunks[(RANK - step) % WORLD].tobytes()))
            mine = (RANK - step - 1) % WORLD
            chunks[mine] = array.array("d", map(float.__add__, chunks[mine], received))
        for step in range(WORLD - 1):  # all-gather: the summed chunks go round
            received = self.pass_on(chunks[(RANK + 1 - step) % WORLD].tobytes())
            chunks[(RANK - step) % WORLD] = array.array("d", received)
        return [value for chunk in chunks for value in chunk][: len(values)]


def address(peer):
    host, _, port = peer.rpartition(":")
    return host.strip("[]"), int(port)


def dial(peer):
    """The neighbour may not listen yet: dial again, for a minute at most."""
    for attempt in range(1, 121):
        try:
            return socket.create_connection(address(peer))
        except ConnectionRefusedError:
            time.sleep(min(0.01 * attempt, 0.5))
    raise ConnectionError(f"nobody listens at {peer}")


def draw(digit, rng):
    """An image as a list of pixels: the glyph, shifted and faded, and noise."""
    pixels = [rng.gauss(0.0, 0.2) for _ in range(SIDE * SIDE)]
    left, top, ink = rng.randint(1, 2), rng.randint(0, 1), rng.uniform(0.7, 1.0)
    for y, row in enumerate(GLYPHS[7 * digit : 7 * digit + 7]):
        for x in range(5):
            pixels[(top + y) * SIDE + left + x] += ink * (row >> (4 - x) & 1)
    return [*pixels, 1.0]


def draw_many(count, seed):
    rng = random.Random(seed)
    return [(draw(digit, rng), digit) for digit in rng.choices(range(10), k=count)]


def layers(weights):
    """The rows of both layers: one row per hidden unit, one per digit."""
    cut, width = HIDDEN * INPUTS, HIDDEN + 1
    hidden = [weights[i : i + INPUTS] for i in range(0, cut, INPUTS)]
    return hidden, [weights[i : i + width] for i in range(cut, len(weights), width)]


def forward(hidden_rows, digit_rows, image):
    """What the hidden units say, and the probability of each digit."""
    hidden = [math.tanh(sum(map(mul, row, image))) for row in hidden_rows] + [1.0]
    powers = [math.exp(sum(map(mul, row, hidden))) for row in digit_rows]
    return hidden, [power / sum(powers) for power in powers]


def gradient(weights, batch):
    """Of the mean loss over the batch; the loss itself comes last."""
    hidden_rows, digit_rows = layers(weights)
    back = list(zip(*digit_rows))[:-1]
    loss, hiddens, digit_errors, hidden_errors = 0.0, [], [], []
    for image, digit in batch:
        hidden, chances = forward(hidden_rows, digit_rows, image)
        loss -= math.log(chances[digit]) / len(batch)
        chances[digit] -= 1.0
        hiddens.append(hidden)
        digit_errors.append(chances)
        hidden_errors.append([(1 - h * h) * sum(map(mul, chances, row)) for h, row in zip(hidden, back)])
    images = [image for image, _ in batch]
    return [*products(hidden_errors, images), *products(digit_errors, hiddens), loss]


def products(errors, inputs):
    columns = list(zip(*inputs))
    return [sum(map(mul, error, column)) / len(inputs) for error in zip(*errors) for column in columns]


def train(sum_all):
    rng = random.Random("weights")  # the same on every rank
    weights = [rng.gauss(0.0, 0.2) for _ in range(HIDDEN * INPUTS + 10 * (HIDDEN + 1))]
    speed = [0.0] * len(weights)
    for epoch in range(1, EPOCHS + 1):
        losses, images = [], draw_many(IMAGES, seed=f"rank {RANK}, epoch {epoch}")  # every rank has its own
        for start in range(0, IMAGES, BATCH):
            *grad, loss = sum_all(gradient(weights, images[start : start + BATCH]))
            speed = [MOMENTUM * v - RATE * g / WORLD for v, g in zip(speed, grad)]
            weights = [w + v for w, v in zip(weights, speed)]
            losses.append(loss / WORLD)
        if RANK == 0:
            print(f"epoch {epoch:2}: loss {sum(losses) / len(losses):.3f}", flush=True)
    return weights


def main():
    ring = Ring(PEERS) if WORLD > 1 else None
    sum_all = ring.sum if ring else list
    weights = train(sum_all)

    neighbour = (RANK - 1) % WORLD
    mine = hashlib.sha256(array.array("d", weights).tobytes()).digest()
    theirs = ring.pass_on(mine) if ring else mine  # each equals its neighbour's, so all are equal
    verdict = "equal" if mine == theirs else f"differ ({theirs.hex()[:16]}) from"
    print(f"weights {mine.hex()[:16]} {verdict} those of rank {neighbour}", flush=True)

    hits = 0.0
    for image, digit in draw_many(UNSEEN, seed=f"rank {RANK}, unseen"):
        _, chances = forward(*layers(weights), image)
        hits += chances.index(max(chances)) == digit
    (right,) = sum_all([hits])
    if RANK == 0:
        of = UNSEEN * WORLD
        print(
            f"{WORLD} ranks: {right:.0f} of {of} unseen digits right, accuracy {right / of:.1%}", flush=True
        )
    return 0 if mine == theirs else 1


if __name__ == "__main__":
    sys.exit(main())
