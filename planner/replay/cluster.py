"""All workers under a trace: arrivals are routed, steps end, caches move from prefill to decode workers, workers fail.

Events are taken in order of time, then of entry, so that a replay of one seed always gives the same result.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush

from planner.errors import InputError
from planner.replay.ledger import UNSET, Ledger
from planner.replay.rank import Prompt, Rank
from planner.replay.results import Replayed, replayed
from planner.replay.settings import Deployment, Rules, Transfer
from planner.replay.step_table import StepTable
from planner.replay.trace import Trace
from planner.replay.worker import Done, Worker

Progress = Callable[[int, int], None]

PROGRESS_EVERY = 500
BALANCE_ABSOLUTE, BALANCE_RELATIVE = 32, 1.5
"""Prefix-aware routing gives way to the least loaded worker where the busiest has so many requests more than the
idlest, and so many times as many (sgl-router's balance_abs_threshold and balance_rel_threshold, sglang 0.5)."""

STEP, START, HANDOVER, SENT, FAIL, RECOVER = range(6)
Payload = tuple[int, int, Worker | None, tuple[Rank, Prompt] | None]


def replay(
    trace: Trace,
    decode: tuple[Deployment, StepTable],
    rules: Rules,
    prefill: tuple[Deployment, StepTable] | None = None,
    transfer: Transfer | None = None,
    progress: Progress | None = None,
) -> Replayed:
    """Replays ``trace`` on workers that decode (and prefill, where there is no pool for it).

    ``transfer`` is the cost of moving a prompt's cache, needed with a prefill pool. ``progress`` is called with
    (requests done, requests). Raises InputError for a request that no worker's cache can ever hold, and where failures
    leave no worker.
    """
    return _Cluster(trace, decode, rules, prefill, transfer, progress).run()


class _Cluster:
    def __init__(
        self,
        trace: Trace,
        decode: tuple[Deployment, StepTable],
        rules: Rules,
        prefill: tuple[Deployment, StepTable] | None,
        transfer: Transfer | None,
        progress: Progress | None,
    ) -> None:
        if prefill is not None and transfer is None:
            raise InputError("transfer", None, "the cost of moving a cache between the pools")
        self.rules, self.transfer, self.progress = rules, transfer, progress
        self.trace = trace
        self.ledger = Ledger(trace, rules)
        kind, table = decode
        self.decoders = [Worker(w, kind, table, self.ledger, rules) for w in range(kind.workers)]
        if prefill is None:
            self.entries, self.split = self.decoders, False
        else:
            first, first_table = prefill
            self.entries = [
                Worker(w, first, first_table, self.ledger, rules, prefill_only=True) for w in range(first.workers)
            ]
            self.split = True
        self.loads = {id(w): 0 for w in [*self.entries, *self.decoders]}
        self.link_free: dict[int, float] = {}
        self.events: list[tuple[float, int, int, Payload]] = []
        self.order = 0
        self.turn = 0
        self.homeless: list[int] = []
        """Requests that wait for a worker to come back."""
        self.done = self.inside = 0
        self.area = self.now = 0.0
        self.next = 0
        for f in rules.failures:
            if not 0 <= f.worker < len(self.decoders):
                raise InputError("failures.worker", f.worker, f"a worker from 0 to {len(self.decoders) - 1}")
            self._announce(f.at_s, FAIL, self.decoders[f.worker])
            self._announce(f.at_s + f.recovery_s, RECOVER, self.decoders[f.worker])
        most = min(w.ranks[0].pool.capacity - w.ranks[0].pool.kept for w in self.entries + self.decoders)
        longest = max(a + b for a, b in zip(self.ledger.input, self.ledger.output, strict=True))
        if longest > most:
            raise InputError("trace", f"a request of {longest} tokens", f"at most {most}, the cache of one rank")

    def run(self) -> Replayed:
        n, closed = len(self.ledger), self.rules.concurrency
        arrival = self.ledger.arrival
        if closed is not None:
            for _ in range(min(closed, n)):
                self._arrive(0.0)
        events = self.events
        while self.done < n:  # failures announced for later do not make the replay any longer
            open_loop = closed is None and self.next < n
            if events and not (open_loop and arrival[self.next] <= events[0][0]):
                at, _, kind, payload = heappop(events)
                self._advance_clock(at)
                self._handle(kind, payload)
            elif open_loop:
                self._advance_clock(arrival[self.next])
                self._arrive(arrival[self.next])
            else:
                break
        if self.done < n:
            raise InputError("failures", f"{n - self.done} requests left", "at least one worker that stays up")
        workers = self.decoders + (self.entries if self.split else [])
        return replayed(self.trace, self.ledger, self.rules, workers, self.area, self.now)

    def _advance_clock(self, at: float) -> None:
        self.area += self.inside * (at - self.now)
        self.now = at

    def _announce(
        self, at: float, kind: int, worker: Worker | None = None, i: int = -1, held: tuple[Rank, Prompt] | None = None
    ) -> None:
        self.order += 1
        version = worker.version if worker is not None else 0
        heappush(self.events, (at, self.order, kind, (version, i, worker, held)))

    def _handle(self, kind: int, payload: Payload) -> None:
        version, i, worker, held = payload
        if kind == STEP:
            assert worker is not None
            if worker.version == version:
                worker.settling = True
                self._completed(worker, worker.complete())
                worker.settling = False
                self._plan(worker)
        elif kind == START:
            assert worker is not None
            worker.settling = False
            self._plan(worker)
        elif kind == HANDOVER:
            assert worker is not None
            self._hand_over(i, worker)
        elif kind == SENT:
            assert worker is not None
            assert held is not None
            if worker.up:
                held[0].drop(held[1])
                self._kick(worker)
        elif kind == FAIL:
            assert worker is not None
            finished, lost = worker.fail(self.now)
            self._completed(worker, Done(finished))
            self.loads[id(worker)] -= len(lost)
            for j in lost:
                self._enter(j)
        else:
            assert worker is not None
            worker.up = True
            for j in self.homeless:
                self._enter(j)
            self.homeless.clear()
            self._kick(worker)

    def _arrive(self, at: float) -> None:
        """The next request of the trace enters."""
        i = self.next
        self.next += 1
        self.ledger.arrived(i, at)
        self.inside += 1
        most = self.rules.admission.most_waiting
        worker = self._choose(self.entries, i)
        if worker is not None and most is not None and worker.waiting >= most:
            self.ledger.rejected[i] = True
            self._leave(i)
            return
        self._enter(i, worker)

    def _enter(self, i: int, worker: Worker | None = None) -> None:
        """Puts request ``i`` into a queue; where no worker is up it waits for one."""
        chosen = worker or self._choose(self.entries, i)
        if chosen is None:
            self.homeless.append(i)
            return
        self.loads[id(chosen)] += 1
        chosen.enqueue(i, self.rules.routing == "prefix_aware")
        self._kick(chosen)

    def _choose(self, workers: list[Worker], i: int) -> Worker | None:
        up = [w for w in workers if w.up] if self.rules.failures else workers
        if len(up) < 2:
            return up[0] if up else None
        routing = self.rules.routing
        if routing == "round_robin":
            self.turn += 1
            return up[(self.turn - 1) % len(up)]
        loads = self.loads
        counts = [loads[id(w)] for w in up]
        least = min(counts)
        if routing == "prefix_aware" and not self._unbalanced(least, max(counts)):
            known = [w.cached(i) for w in up]
            best = max(known)
            if best:
                return min((w for w, k in zip(up, known, strict=True) if k == best), key=lambda w: loads[id(w)])
        return up[counts.index(least)]

    @staticmethod
    def _unbalanced(least: int, most: int) -> bool:
        return most - least > BALANCE_ABSOLUTE and most > BALANCE_RELATIVE * least

    def _kick(self, worker: Worker) -> None:
        """Something came to a worker: it starts once all that comes at this time is there, or stops its jump at the end
        of the step under way."""
        if worker.settling:
            return
        if worker.step is None:
            worker.settling = True
            self._announce(self.now, START, worker)
        else:
            end = worker.cut(self.now)
            if end is not None:
                self._announce(end, STEP, worker)

    def _plan(self, worker: Worker) -> None:
        end = worker.plan(self.now)
        if end is not None:
            self._announce(end, STEP, worker)

    def _completed(self, worker: Worker, done: Done) -> None:
        for i in done.finished:
            self.loads[id(worker)] -= 1
            self._leave(i)
        if done.computed:
            self._send(worker, done)

    def _send(self, worker: Worker, done: Done) -> None:
        """The caches of prompts that a step has computed go to decode workers, those of one rank one after the other.

        Layers that are sent while later ones are computed have left but for the last when the step ends, or as far as
        the link passes them beside it. A receiving rank takes one cache after the other, at its own pace.
        """
        assert self.transfer is not None
        t, free = self.transfer, self.link_free
        by_rank: dict[int, list[Prompt]] = {}
        for rank, prompt in done.computed:
            by_rank.setdefault(id(rank), []).append(prompt)
        sent: dict[int, float] = {}
        for key, prompts in by_rank.items():
            busy = t.seconds_per_token * sum(p.past + p.need for p in prompts)
            early = (t.layers - 1) / t.layers
            begin = max(self.now - done.seconds * early, free.get(key, 0.0))
            at = max(self.now, begin + busy * early)
            for p in prompts:
                at += t.seconds_per_token * (p.past + p.need) / t.layers
                sent[p.request] = at
            free[key] = at
        for rank, prompt in done.computed:
            self.loads[id(worker)] -= 1
            decoder = self._least_loaded_decoder()
            self.loads[id(decoder)] += 1
            tokens = prompt.past + prompt.need
            own = t.receive_seconds_per_token * tokens
            here = free.get(id(decoder), 0.0)
            arrived = max(sent[prompt.request], here + own / len(decoder.ranks))
            arrived = max(arrived, self.now + own / t.layers)
            free[id(decoder)] = max(here, arrived - own) + own / len(decoder.ranks)
            end = arrived + t.latency_s
            self._announce(end, HANDOVER, decoder, i=prompt.request)
            self._announce(end, SENT, worker, held=(rank, prompt))

    def _hand_over(self, i: int, worker: Worker) -> None:
        self.ledger.prefilled[i] = True
        if not worker.up:
            self.loads[id(worker)] -= 1
            worker = self._least_loaded_decoder()
            self.loads[id(worker)] += 1
        worker.enqueue(i, False)
        self._kick(worker)

    def _least_loaded_decoder(self) -> Worker:
        up = [w for w in self.decoders if w.up]
        if not up:
            raise InputError("failures", "all decode workers", "at least one decode worker that stays up")
        return min(up, key=lambda w: self.loads[id(w)])

    def _leave(self, i: int) -> None:
        self.done += 1
        self.inside -= 1
        if self.ledger.finish[i] == UNSET:
            self.ledger.finish[i] = self.now
        if self.progress is not None and self.done % PROGRESS_EVERY == 0:
            self.progress(self.done, len(self.ledger))
        if self.rules.concurrency is not None and self.next < len(self.ledger):
            self._arrive(self.now)
