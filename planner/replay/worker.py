"""One worker: a step is planned, lasts as long as the step table says, and is carried out.

Steps that carry the same sequences are taken in one jump: until the next one ends, a page cannot be had, or a request
arrives. Token gaps of all decoding requests are the same but for those that joined since the last decode step, so they
are counted by step, not by request.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from heapq import heappop, heappush
from math import ceil

from planner.replay.ledger import UNSET, Ledger
from planner.replay.rank import Prompt, Rank
from planner.replay.settings import Deployment, Rules
from planner.replay.step_table import Prompts, StepTable, equal_past

JUMP_GROWTH = 0.1
"""A jump ends when the contexts have grown by this part: its steps all take as long as the middle one."""


@dataclass(slots=True)
class Step:
    """Steps under way: ``count`` of ``seconds`` each from ``start``."""

    start: float
    seconds: float
    count: int
    decodes: bool
    prompts: bool

    @property
    def end(self) -> float:
        return self.start + self.seconds * self.count


@dataclass
class Done:
    """What a step brought: requests that finished, and prompts whose cache goes to a decode worker."""

    finished: list[int] = field(default_factory=list)
    computed: list[tuple[Rank, Prompt]] = field(default_factory=list)
    seconds: float = 0.0
    """Time of the step that computed them."""


class Worker:
    """Ranks that step together."""

    def __init__(
        self, index: int, kind: Deployment, table: StepTable, ledger: Ledger, rules: Rules, prefill_only: bool = False
    ) -> None:
        self.index, self.kind, self.table, self.ledger = index, kind, table, ledger
        self.prefill_only = prefill_only
        self._per_step = rules.speculation.tokens_per_step
        self.ranks = [Rank(kind.scheduler, kind.cache, ledger, self._per_step) for _ in range(kind.ranks)]
        self.step: Step | None = None
        self.version = 0
        """Changes with every plan: an end of step that was announced for an older one is void."""
        self.up = True
        self.settling = False
        """It is about to plan: what comes in at this very time needs no further notice."""
        self.busy_s = self.prompt_s = self.sequence_s = 0.0
        self._k = 0
        self._n = 0
        self._context = 0.0
        self._ends: list[tuple[int, int]] = []
        self._rank_of: dict[int, Rank] = {}
        self._last_decode = 0.0
        self._joined: dict[int, float] = {}
        self._over = [0] * len(ledger.tbt_limits)

    @property
    def waiting(self) -> int:
        return sum(len(r.waiting) for r in self.ranks)

    def cached(self, i: int) -> int:
        """Leading blocks of request ``i`` in the cache of the rank that has most of them."""
        blocks = self.ledger.blocks[i]
        return max(r.pool.cached(blocks) for r in self.ranks)

    def enqueue(self, i: int, by_prefix: bool) -> None:
        """Puts a request into the queue of the least loaded rank, or of the one that knows most of its prompt."""
        ranks = self.ranks
        if len(ranks) == 1:
            ranks[0].enqueue(i)
        elif by_prefix:
            blocks = self.ledger.blocks[i]
            max(ranks, key=lambda r: (r.pool.cached(blocks), -r.load)).enqueue(i)
        else:
            min(ranks, key=lambda r: r.load).enqueue(i)

    def plan(self, now: float) -> float | None:
        """Starts the next step; its end, or None where there is nothing to do (or nothing can be done yet)."""
        self.version += 1
        if not self.up:
            return None
        mixed = self.kind.scheduler.mixed
        prompts = False
        for rank in self.ranks:
            if mixed and rank.n:
                self._make_room(rank)
            if rank.prompts or rank.waiting:
                for ready in rank.fill(self._k):
                    self._join(rank, ready, now)
                prompts = prompts or bool(rank.chunks)
        if prompts:
            self.step = self._prompt_step(now, mixed)
        elif self._n:
            self.step = self._decode_steps(now)
        return None if self.step is None else self.step.end

    def cut(self, now: float) -> float | None:
        """A request arrived: a jump of several steps stops at the end of the step under way. Its end if it changed."""
        step = self.step
        if step is None or step.count == 1:
            return None
        count = max(1, ceil((now - step.start) / step.seconds - 1e-9))
        if count >= step.count:
            return None
        step.count = count
        self.version += 1
        return step.end

    def complete(self) -> Done:
        """Carries out the step under way."""
        step, done = self.step, Done()
        assert step is not None
        self.step = None
        self.busy_s += step.seconds * step.count
        if step.decodes:
            self._decode(step, done)
        if step.prompts:
            self.prompt_s += step.seconds
            done.seconds = step.seconds
            for rank in self.ranks:
                if rank.chunks:
                    self._advance(rank, step.end, done)
        return done

    def fail(self, now: float) -> tuple[list[int], list[int]]:
        """Everything in the worker is lost: (requests that finished before, requests to start again elsewhere)."""
        step, done = self.step, Done()
        if step is not None and step.decodes and not step.prompts:
            step.count = int((now - step.start) / step.seconds)
            if step.count:
                self._decode(step, done)
        self.step, self.up = None, False
        self.version += 1
        lost = []
        for rank in self.ranks:
            lost += [i for _, _, i in rank.waiting] + [p.request for p in rank.prompts]
            for i in list(rank.running):
                self._stop(rank, i)
                lost.append(i)
            for prompt in rank.prompts:
                rank.drop(prompt)
            rank.waiting, rank.prompts, rank.chunks = [], [], []
            rank.pool.clear()
        for i in lost:
            self.ledger.prefilled[i] = False
            self.ledger.restarts[i] += 1
        return done.finished, sorted(lost)

    def _prompt_step(self, now: float, mixed: bool) -> Step:
        loads = [(sum(c for _, c in r.chunks), r) for r in self.ranks if r.chunks]
        busiest = max(loads, key=lambda pair: pair[0])[1]
        tokens, sequences, past = equal_past([(c, p.past + p.done) for p, c in busiest.chunks])
        decodes = self._n if mixed else 0
        kv = (self._context + self._n * self._per_step * self._k) / self._n if decodes else 16.0
        beside = max(r.n for r in self.ranks) if decodes else 0
        seconds = self.table.mixed(beside, kv, Prompts(tokens, sequences, past, float(sum(t for t, _ in loads))))
        return Step(now, seconds, 1, decodes > 0, True)

    def _decode_steps(self, now: float) -> Step:
        if not self.kind.scheduler.mixed:
            for rank in self.ranks:
                if rank.n:
                    self._make_room(rank)
        self._drop_stale()
        context = self._context + self._n * self._per_step * self._k
        most = max(1, int(JUMP_GROWTH * context / (self._n * self._per_step)))
        count = min(self._ends[0][0] - self._k, most)
        for rank in self.ranks:
            if rank.n:
                count = 1 + min(count - 1, rank.pool.steps_that_fit(self._k + 1, count - 1))
        middle = context / self._n + 0.5 * (count - 1) * self._per_step
        return Step(now, self.table.decode(max(r.n for r in self.ranks), middle), count, True, False)

    def _drop_stale(self) -> None:
        ends, ranks = self._ends, self._rank_of
        while ends and (ends[0][1] not in ranks or ranks[ends[0][1]].running[ends[0][1]].ends != ends[0][0]):
            heappop(ends)

    def _make_room(self, rank: Rank) -> None:
        """Allocates the pages of the next decode step before new prompts can take them; where there are too few, the
        least important and latest requests are preempted. The last one left always fits (checked on entry).
        """
        while not rank.pool.steps_that_fit(self._k, 1):
            prompt = rank.last_prompt()
            if prompt is not None:
                rank.drop(prompt)
                i = prompt.request
            else:
                i = rank.last_running()
                self._stop(rank, i)
            self.ledger.restarts[i] += 1
            self.ledger.prefilled[i] = False
            rank.enqueue(i)
        rank.pool.grow(self._k, 1)

    def _stop(self, rank: Rank, i: int) -> None:
        """A decoding request loses its cache; what it has sent stays sent."""
        ledger = self.ledger
        r = rank.leave(i, self._k)
        self._forget(i, r.context, r.joined)
        sent = min(1 + round((self._k - r.joined) * self._per_step), ledger.left(i))
        ledger.generated[i] += sent
        ledger.last[i] = self._joined.pop(i, self._last_decode)
        self._settle(i)

    def _decode(self, step: Step, done: Done) -> None:
        """``count`` steps for every decoding request; those that end leave."""
        n, count, seconds = self._n, step.count, step.seconds
        self.sequence_s += n * seconds * count
        if count > 1:
            for rank in self.ranks:
                if rank.n:
                    rank.pool.grow(self._k + 1, count - 1)
        self._count_gaps(step, n, count, seconds)
        self._k += count
        k = self._k
        ends = self._ends
        while ends and ends[0][0] <= k:
            at, i = heappop(ends)
            rank_ = self._rank_of.get(i)
            if rank_ is None or rank_.running[i].ends != at:
                continue
            r = rank_.leave(i, k)
            self._forget(i, r.context, r.joined)
            self._settle(i)
            self.ledger.generated[i] = self.ledger.output[i]
            self.ledger.finish[i] = step.end
            done.finished.append(i)

    def _count_gaps(self, step: Step, n: int, count: int, seconds: float) -> None:
        ledger, joined = self.ledger, self._joined
        first_end = step.start + seconds
        main = n - len(joined)
        gap = first_end - self._last_decode
        if main:
            ledger.gap(gap, main)
        for at in joined.values():
            ledger.gap(first_end - at)
        if count > 1:
            ledger.gap(seconds, n * (count - 1))
        per = self._per_step
        for j, limit in enumerate(ledger.tbt_limits):
            shown = int(main > 0 and gap > limit * per)
            self._over[j] += shown + (count - 1) * int(seconds > limit * per)
            for i, at in joined.items():
                ledger.over[j][i] += int(first_end - at > limit * per) - shown
        joined.clear()
        self._last_decode = first_end + (count - 1) * seconds

    def _advance(self, rank: Rank, end: float, done: Done) -> None:
        """The chunks of a step are computed; prompts that are complete make their first token."""
        complete = False
        for prompt, tokens in rank.chunks:
            prompt.done += tokens
            complete = complete or prompt.done == prompt.need
        rank.chunks = []
        if not complete:
            return
        ready = [p for p in rank.prompts if p.done == p.need]
        rank.prompts = [p for p in rank.prompts if p.done < p.need]
        for prompt in ready:
            rank.publish(prompt)
            last = self.ledger.left(prompt.request) == 1
            if self.prefill_only and not last:
                done.computed.append((rank, prompt))
            elif last:
                self._token(prompt.request, end)
                rank.drop(prompt)
                self.ledger.generated[prompt.request] = self.ledger.output[prompt.request]
                self.ledger.finish[prompt.request] = end
                done.finished.append(prompt.request)
            else:
                self._join(rank, prompt, end)

    def _join(self, rank: Rank, prompt: Prompt, now: float) -> None:
        """A request starts to decode; its first token (or the next one, after a restart) comes now."""
        i, ledger = prompt.request, self.ledger
        self._token(i, now)
        steps = max(ledger.steps(ledger.left(i) - 1), 1)
        rank.join(prompt, self._k, steps)
        self._rank_of[i] = rank
        self._n += 1
        self._context += prompt.past + prompt.need - self._k * self._per_step
        heappush(self._ends, (self._k + steps, i))
        self._joined[i] = now
        for j, over in enumerate(self._over):
            ledger.over[j][i] -= over

    def _token(self, i: int, now: float) -> None:
        ledger = self.ledger
        if ledger.first[i] == UNSET:
            ledger.first[i] = now
            return
        gap = now - ledger.last[i]
        ledger.gap(gap)
        for j, limit in enumerate(ledger.tbt_limits):
            ledger.over[j][i] += int(gap > limit)

    def _forget(self, i: int, context: int, joined: int) -> None:
        del self._rank_of[i]
        self._n -= 1
        self._context -= context - joined * self._per_step

    def _settle(self, i: int) -> None:
        """Books the worker's count of long gaps since the request joined."""
        for j, over in enumerate(self._over):
            self.ledger.over[j][i] += over
