"""A closed loop stepped one engine step at a time: what the closed forms of planner.serving are checked against."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Loop:
    concurrency: int
    input_tokens: float
    output_tokens: float
    shortest: float
    """Lengths are uniform between this share of nominal and nominal (1: fixed)."""
    pause: bool
    budget: float
    poll_steps: int
    step_s: float = 0.01
    sequence_s: float = 3e-5
    prompt_step_s: float = 0.005
    token_s: float = 4e-5

    @property
    def mean_input(self) -> float:
        return self.input_tokens * (1.0 + self.shortest) / 2.0

    @property
    def mean_output(self) -> float:
        return self.output_tokens * (1.0 + self.shortest) / 2.0


def step_through(loop: Loop, waves: int = 10, seed: int = 0) -> tuple[float, float, float]:
    """(mean TTFT, mean TPOT, requests per second) of ``waves`` x concurrency requests, the first wave all at once."""
    rng = np.random.default_rng(seed)
    total = waves * loop.concurrency
    prompt = np.rint(rng.uniform(loop.shortest, 1.0, total) * loop.input_tokens)
    wanted = np.rint(rng.uniform(loop.shortest, 1.0, total) * loop.output_tokens).astype(int)
    arrived, first, done = np.zeros(total), np.zeros(total), np.zeros(total)
    now, sent, step = 0.0, loop.concurrency, 0
    inbox, queue = list(range(sent)), []
    left: list[float] = []
    ids, rest = np.empty(0, int), np.empty(0, int)
    while not done.all():
        if step % loop.poll_steps == 0 or (not ids.size and not queue):
            queue, inbox = queue + inbox, []
            left += [prompt[i] for i in queue[len(left) :]]
        step += 1
        room = loop.budget if loop.pause else max(loop.budget - ids.size, 1.0)
        taken, fresh = 0.0, []
        while queue and taken < room:
            part = min(room - taken, left[0])
            taken, left[0] = taken + part, left[0] - part
            if left[0] <= 0:
                fresh.append(queue.pop(0))
                left.pop(0)
        decodes = not (loop.pause and taken)
        now += (loop.prompt_step_s + loop.token_s * taken) if taken else 0.0
        if decodes:
            now += loop.step_s + loop.sequence_s * ids.size
            rest = rest - 1
            over = ids[rest <= 0]
            done[over] = now
            again = np.arange(sent, min(sent + over.size, total))
            arrived[again], sent = now, sent + again.size
            inbox += again.tolist()
            ids, rest = ids[rest > 0], rest[rest > 0]
        first[fresh] = now
        ids, rest = np.append(ids, fresh).astype(int), np.append(rest, wanted[fresh] - 1).astype(int)
    tpot = (done - first) / np.maximum(wanted - 1, 1)
    return float((first - arrived).mean()), float(tpot.mean()), total / now
