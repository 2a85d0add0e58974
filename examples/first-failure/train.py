"""Three ranks train; in the second epoch the loss of one of them is not a number any more."""

import math
import os
import time

RANK = int(os.environ["HORA_RANK"])


def train(epoch: int) -> float:
    time.sleep(0.2)  # stands for an epoch of work
    if RANK == 1 and epoch == 2:
        return math.nan
    return 1 / (epoch + 0.1 * RANK)


for epoch in range(1, 6):
    loss = train(epoch)
    if math.isnan(loss):
        raise FloatingPointError(
            f"the loss of rank {RANK} is nan in epoch {epoch}: is the learning rate too high?"
        )
    print(f"epoch {epoch}: loss {loss:.3f}", flush=True)
