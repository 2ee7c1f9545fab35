"""KV cache of one attention-DP rank: paged allocation, growth of outputs, prefix blocks with least-recent eviction."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

from planner.replay.settings import Cache


class KvPool:
    """Counts tokens in whole pages. Step numbers ``k`` are those of the worker's decode counter.

    A running sequence takes a page every ``period`` steps (page tokens over tokens a step), so the pages of any number
    of steps follow from how many sequences turn a page at each remainder: nothing is walked token by token.
    """

    def __init__(self, cache: Cache, hash_tokens: int, tokens_per_step: float) -> None:
        self._page = cache.block_tokens
        self._period = max(1, round(cache.block_tokens / tokens_per_step))
        self._turns = [0] * self._period
        self._growing = 0
        self._hash = hash_tokens if cache.prefix else 0
        self.shares = self._hash > 0
        self.capacity = cache.tokens // cache.block_tokens * cache.block_tokens
        self.kept = cache.kept_tokens
        self.free = self.capacity
        self._shared: dict[int, int] = {}
        self._idle: OrderedDict[int, None] = OrderedDict()

    @property
    def available(self) -> int:
        """Tokens that can be had: free ones and cached blocks that nobody uses, but for those that are kept."""
        return self.free + len(self._idle) * self._hash - self.kept

    def pages(self, tokens: int) -> int:
        """``tokens`` in whole pages."""
        return -(-tokens // self._page) * self._page

    def cached(self, blocks: Sequence[int]) -> int:
        """Leading blocks of ``blocks`` that are in the cache."""
        if not self._hash:
            return 0
        shared, idle = self._shared, self._idle
        for n, block in enumerate(blocks):
            if block not in shared and block not in idle:
                return n
        return len(blocks)

    def claim(self, blocks: Sequence[int]) -> None:
        """Holds on to cached blocks for one more request."""
        for block in blocks:
            if block in self._idle:
                del self._idle[block]
                self._shared[block] = 1
            else:
                self._shared[block] += 1

    def unclaimed(self, blocks: Sequence[int]) -> int:
        """Tokens of cached ``blocks`` that a claim would take out of what is available."""
        return sum(self._hash for block in blocks if block in self._idle)

    def release(self, blocks: Sequence[int]) -> None:
        """Lets go of shared blocks; those that nobody holds stay cached until their room is needed."""
        for block in blocks:
            left = self._shared[block] - 1
            if left:
                self._shared[block] = left
            else:
                del self._shared[block]
                self._idle[block] = None

    def share(self, blocks: Sequence[int]) -> list[int]:
        """Makes a request's own blocks visible to others: those that were not cached yet, now shared and held once."""
        fresh = []
        for block in blocks:
            if block in self._shared or block in self._idle:
                continue
            self._shared[block] = 1
            fresh.append(block)
        return fresh

    def take(self, tokens: int) -> None:
        """Allocates ``tokens`` (whole pages), evicting idle blocks; the caller has checked ``available``."""
        while self.free < tokens:
            self._idle.popitem(last=False)
            self.free += self._hash
        self.free -= tokens

    def give(self, tokens: int) -> None:
        """Frees ``tokens``."""
        self.free += tokens

    def clear(self) -> None:
        """An empty cache: after a failure."""
        self.free = self.capacity
        self._shared.clear()
        self._idle.clear()
        self._turns = [0] * self._period
        self._growing = 0

    def start(self, k: int, slack: int) -> int:
        """A sequence that decodes from step ``k`` with ``slack`` unused tokens in its last page; its remainder."""
        turn = (k + slack * self._period // self._page + 1) % self._period
        self._turns[turn] += 1
        self._growing += 1
        return turn

    def stop(self, joined: int, k: int, turn: int) -> int:
        """Ends a sequence that decoded from step ``joined`` to ``k``; the tokens its output pages took."""
        self._turns[turn] -= 1
        self._growing -= 1
        period = self._period
        return ((k - turn) // period - (joined - turn) // period) * self._page

    def grow(self, k: int, steps: int) -> None:
        """Pages that all sequences need for the steps after ``k``."""
        self.take(self._needed(k, steps))

    def steps_that_fit(self, k: int, steps: int) -> int:
        """The most of ``steps`` steps after ``k`` whose pages can be had."""
        room = self.available
        if self._growing * (steps // self._period + 1) * self._page <= room or self._needed(k, steps) <= room:
            return steps
        low, high = 0, steps
        while high - low > 1:
            middle = (low + high) // 2
            if self._needed(k, middle) <= room:
                low = middle
            else:
                high = middle
        return low

    def _needed(self, k: int, steps: int) -> int:
        whole, rest = divmod(steps, self._period)
        turns = self._growing * whole
        for step in range(k + 1, k + rest + 1):
            turns += self._turns[step % self._period]
        return turns * self._page
