"""What is known of each request while a replay runs. Columns are lists: a step touches a few numbers of a few requests,
where lists beat arrays several times over."""

from __future__ import annotations

import numpy as np

from planner.replay.settings import Rules, counted_range
from planner.replay.trace import Trace

UNSET = -1.0


class Ledger:
    """Columns by request, and the gaps between tokens of all of them."""

    def __init__(self, trace: Trace, rules: Rules) -> None:
        n = len(trace)
        self.arrival: list[float] = trace.arrival_s.tolist()
        self.input: list[int] = trace.input_tokens.tolist()
        self.output: list[int] = trace.output_tokens.tolist()
        self.priority: list[int] = trace.priority.tolist()
        self.block_tokens = trace.block_tokens
        self.blocks: list[list[int]] = _whole_blocks(trace)
        self.generated = [0] * n
        """Tokens already sent: a request that lost its cache prefills them again."""
        self.cached = [0] * n
        self.prefilled = [False] * n
        """The prompt's cache has come over from a prefill worker."""
        self.first = [UNSET] * n
        self.last = [UNSET] * n
        """Time of the latest token, kept while a request holds no cache."""
        self.finish = [UNSET] * n
        self.rejected = [False] * n
        self.restarts = [0] * n
        self.tbt_limits = [limit for limit, _ in rules.limits.tbt_s]
        self.over = [[0] * n for _ in self.tbt_limits]
        """Gaps above each limit."""
        self.gap_s: list[float] = []
        self.gap_count: list[float] = []
        self.gap_window: list[int | None] = [0, None]
        """Gaps that are counted: those between the first and the last counted arrival."""
        self._counted = counted_range(n, rules)
        self._speculation = rules.speculation.distribution if rules.speculation.acceptance else None
        self._rng = np.random.default_rng(rules.seed)
        self.chance: list[float] = np.random.default_rng([rules.seed, 1]).random(n).tolist()
        """A number between 0 and 1 by request, drawn: whose prompt is found in the cache."""

    def __len__(self) -> int:
        return len(self.arrival)

    def total(self, i: int) -> int:
        """Tokens whose cache request ``i`` needs before its next token."""
        return self.input[i] + self.generated[i]

    def left(self, i: int) -> int:
        """Tokens still to come."""
        return self.output[i] - self.generated[i]

    def steps(self, tokens: int) -> int:
        """Decode steps until ``tokens`` have come: as many, or fewer with accepted drafts (drawn)."""
        if self._speculation is None or tokens <= 0:
            return max(tokens, 0)
        sizes, chances = zip(*self._speculation, strict=True)
        mean = sum(s * p for s, p in self._speculation)
        steps = done = 0
        while True:
            drawn = np.cumsum(self._rng.choice(sizes, p=chances, size=int((tokens - done) / mean * 1.1) + 8)) + done
            at = int(np.searchsorted(drawn, tokens))
            if at < drawn.size:
                return steps + at + 1
            steps, done = steps + drawn.size, int(drawn[-1])

    def arrived(self, i: int, now: float) -> None:
        """Request ``i`` comes in: the counted window of gaps opens or closes with it."""
        self.arrival[i] = now
        first, end = self._counted
        if i == first:
            self.gap_window[0] = len(self.gap_s)
        elif i == end:
            self.gap_window[1] = len(self.gap_s)

    def gap(self, seconds: float, count: float = 1.0) -> None:
        """``count`` steps of one request each took ``seconds`` since that request's token before."""
        self.gap_s.append(seconds)
        self.gap_count.append(count)


def _whole_blocks(trace: Trace) -> list[list[int]]:
    """Prefix blocks that a prompt fills; a partial last one cannot be shared."""
    if not trace.block_tokens:
        return [[]] * len(trace)
    ids, starts = trace.block_ids.tolist(), trace.block_starts.tolist()
    whole = (trace.input_tokens // trace.block_tokens).tolist()
    return [ids[starts[i] : min(starts[i + 1], starts[i] + whole[i])] for i in range(len(trace))]
