"""One attention-DP rank: its queue, the prompts in progress, the sequences that decode, its cache."""

from __future__ import annotations

from dataclasses import dataclass
from heapq import heappop, heappush

from planner.replay.ledger import Ledger
from planner.replay.pool import KvPool
from planner.replay.settings import Cache, Scheduler


@dataclass(slots=True)
class Prompt:
    """A prompt in progress."""

    request: int
    need: int
    """Tokens to compute."""
    past: int
    """Tokens before them, from the cache."""
    own: int
    """Cache tokens allocated to the request alone."""
    blocks: list[int]
    """Cached blocks that it shares."""
    done: int = 0


@dataclass(slots=True)
class Running:
    """A sequence that decodes, since step ``joined`` with ``context`` tokens until step ``ends``."""

    joined: int
    ends: int
    context: int
    own: int
    blocks: list[int]
    turn: int
    """Remainder at which it takes pages; -1 where its output is allocated already."""


class Rank:
    """Admission and memory of one rank."""

    def __init__(self, scheduler: Scheduler, cache: Cache, ledger: Ledger, tokens_per_step: float) -> None:
        self.scheduler, self.ledger = scheduler, ledger
        self.pool = KvPool(cache, ledger.block_tokens, tokens_per_step)
        self.waiting: list[tuple[int, float, int]] = []
        self.prompts: list[Prompt] = []
        self.running: dict[int, Running] = {}
        self.chunks: list[tuple[Prompt, int]] = []
        self.n = 0
        """Sequences that decode."""
        self._hit_rate = 0.0 if ledger.block_tokens else cache.hit_rate
        self._hit_requests = cache.hit_requests
        self._tokens_per_step = tokens_per_step
        self._ends = 0
        self._coming = 0

    @property
    def load(self) -> int:
        return self.n + len(self.prompts) + len(self.waiting)

    def holds(self, i: int) -> bool:
        """Whether request ``i`` could ever run: all of it fits the empty cache."""
        return self.pool.pages(self.ledger.input[i] + self.ledger.output[i]) <= self.pool.capacity - self.pool.kept

    def enqueue(self, i: int) -> None:
        ledger = self.ledger
        heappush(self.waiting, (ledger.priority[i], ledger.arrival[i], i))

    def fill(self, k: int) -> list[Prompt]:
        """Chooses this step's chunks (``chunks``) and admits requests; those that need no prompt step are returned."""
        s, ready = self.scheduler, list[Prompt]()
        left = s.token_budget - (self.n if s.mixed else 0)
        room = s.max_sequences - self.n - len(self.prompts)
        idle = not self.n and not self.prompts
        for prompt in self.prompts:
            if left <= 0:
                break
            left -= self._chunk(prompt, left)
        if s.static and not idle:
            return ready
        while self.waiting and room > 0 and (left > 0 or s.static):
            prompt_ = self._admit(self.waiting[0][2], left, k)
            if prompt_ is None:
                break
            heappop(self.waiting)
            room -= 1
            if not prompt_.need:
                ready.append(prompt_)
                continue
            self.prompts.append(prompt_)
            if left > 0:
                left -= self._chunk(prompt_, left)
        return ready

    def _chunk(self, prompt: Prompt, left: int) -> int:
        tokens = min(prompt.need - prompt.done, left)
        self.chunks.append((prompt, tokens))
        return tokens

    def _admit(self, i: int, left: int, k: int) -> Prompt | None:
        """Room for request ``i``: its cache is allocated and it becomes a prompt; None where it must wait."""
        ledger, pool, reserve = self.ledger, self.pool, self.scheduler.reserve_output
        total, blocks = ledger.total(i), ledger.blocks[i]
        hit = 0
        if ledger.prefilled[i]:
            past = total
        elif blocks:
            # A prompt that is cached to its last token computes its last block again.
            hit = min(pool.cached(blocks), (total - 1) // ledger.block_tokens)
            past = hit * ledger.block_tokens
        else:
            part = self._hit_rate if ledger.chance[i] < self._hit_requests else 0.0
            past = min(int(part * ledger.input[i]), total - 1)
        need = total - past
        if not self.scheduler.chunked and left < need <= self.scheduler.token_budget and not self.scheduler.static:
            return None
        shared = blocks[:hit]
        to_come = ledger.left(i) if reserve >= 1.0 else 0
        own = pool.pages(total - hit * ledger.block_tokens + to_come)
        headroom = 0.0
        if 0.0 < reserve < 1.0 and (self.n or self.prompts):
            headroom = reserve * (self._remaining(k) + self._coming + ledger.left(i))
        if own + headroom > pool.available - pool.unclaimed(shared):
            return None
        pool.claim(shared)
        pool.take(own)
        self._coming += ledger.left(i)
        if past > ledger.cached[i] and not ledger.prefilled[i]:
            ledger.cached[i] = past
        return Prompt(i, need, past, own, shared)

    def _remaining(self, k: int) -> float:
        return (self._ends - self.n * k) * self._tokens_per_step

    def publish(self, prompt: Prompt) -> None:
        """The prompt is computed: its whole blocks can be shared from now on."""
        ledger = self.ledger
        fresh = self.pool.share(ledger.blocks[prompt.request][len(prompt.blocks) :]) if self.pool.shares else []
        prompt.own -= len(fresh) * ledger.block_tokens
        prompt.blocks = prompt.blocks + fresh

    def join(self, prompt: Prompt, k: int, steps: int) -> None:
        """The request decodes for ``steps`` steps after ``k``."""
        i = prompt.request
        context = prompt.past + prompt.need
        grows = self.scheduler.reserve_output < 1.0
        slack = self.pool.pages(context) - context
        turn = self.pool.start(k, slack) if grows else -1
        self.running[i] = Running(k, k + steps, context, prompt.own, prompt.blocks, turn)
        self.n += 1
        self._ends += k + steps
        self._coming -= self.ledger.left(i)

    def leave(self, i: int, k: int) -> Running:
        """The request stops decoding after step ``k`` and its cache is free (or stays as idle blocks)."""
        r = self.running.pop(i)
        self.n -= 1
        self._ends -= r.ends
        self.pool.give(r.own + (self.pool.stop(r.joined, k, r.turn) if r.turn >= 0 else 0))
        self.pool.release(r.blocks)
        return r

    def drop(self, prompt: Prompt) -> None:
        """Takes back what a prompt was given: it is done here, or goes back to the queue."""
        self._coming -= self.ledger.left(prompt.request)
        self.pool.give(prompt.own)
        self.pool.release(prompt.blocks)

    def last_prompt(self) -> Prompt | None:
        """The prompt in progress that came last and matters least, removed; None where there is none."""
        if not self.prompts:
            return None
        ledger = self.ledger
        worst = max(self.prompts, key=lambda p: (ledger.priority[p.request], ledger.arrival[p.request]))
        self.prompts.remove(worst)
        return worst

    def last_running(self) -> int:
        """The sequence that came last and matters least."""
        ledger = self.ledger
        return max(self.running, key=lambda i: (ledger.priority[i], ledger.arrival[i], i))
