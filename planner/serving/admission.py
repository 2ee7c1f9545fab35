"""Admission control: whether a request may start now, waits or is turned away, and why.

One worker with a paged KV cache. What is reserved for a request is the policy's choice: its longest output (never runs
out of cache, holds few requests), its expected output (the rest is caught by preemption), or its prompt alone (what
engines do by default).
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from math import ceil
from typing import Any, Literal

from planner.errors import InputError

Action = Literal["admit", "queue", "reject"]
Reserve = Literal["prompt", "expected", "maximum"]
RESERVES: tuple[Reserve, ...] = ("prompt", "expected", "maximum")


@dataclass(frozen=True)
class Policy:
    """Limits of one worker, plain data that goes into a plan."""

    max_sequences: int
    """Requests that run at once."""
    max_context_tokens: int
    """Prompt plus output of one request."""
    max_waiting: int
    """Requests that may wait; one more is rejected."""
    reserve: Reserve = "expected"
    """Output that a request holds blocks for when it starts."""
    watermark: float = 0.01
    """Part of all blocks kept free for the growth of what runs."""
    held_back: dict[int, float] = field(default_factory=dict)
    """Part of all blocks that requests of a priority leave to more urgent ones (a lower number is served first)."""

    def __post_init__(self) -> None:
        if self.reserve not in RESERVES:
            raise InputError("reserve", self.reserve, f"one of {', '.join(RESERVES)}")
        for name in ("max_sequences", "max_context_tokens"):
            if getattr(self, name) < 1:
                raise InputError(name, getattr(self, name), "at least 1")
        if self.max_waiting < 0:
            raise InputError("max_waiting", self.max_waiting, "at least 0")
        shares = {"watermark": self.watermark, **{f"held_back[{p}]": v for p, v in self.held_back.items()}}
        for name, share in shares.items():
            if not 0.0 <= share < 1.0:
                raise InputError(name, share, "0 to less than 1")

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return asdict(self)


@dataclass(frozen=True)
class Request:
    """A request at the door."""

    prompt_tokens: int
    expected_output_tokens: int
    max_output_tokens: int
    cached_tokens: int = 0
    """Prompt tokens whose blocks are in the cache already."""
    priority: int = 0

    def __post_init__(self) -> None:
        if self.prompt_tokens < 1 or self.max_output_tokens < 1:
            raise InputError("request", (self.prompt_tokens, self.max_output_tokens), "at least 1 token of each")
        if not 0 <= self.cached_tokens <= self.prompt_tokens:
            raise InputError("cached_tokens", self.cached_tokens, f"0 to prompt_tokens, {self.prompt_tokens}")
        if not 0 <= self.expected_output_tokens <= self.max_output_tokens:
            raise InputError("expected_output_tokens", self.expected_output_tokens, "0 to max_output_tokens")

    def output(self, reserve: Reserve) -> int:
        """Output tokens that the policy reserves."""
        found = {"prompt": 0, "expected": self.expected_output_tokens, "maximum": self.max_output_tokens}
        return found[reserve]


@dataclass(frozen=True)
class Running:
    """A request that holds blocks."""

    request: Request
    generated_tokens: int = 0


@dataclass(frozen=True)
class State:
    """A worker's cache and what is in it."""

    total_blocks: int
    free_blocks: int
    block_tokens: int
    running: tuple[Running, ...] = ()
    waiting: int = 0

    def __post_init__(self) -> None:
        if self.block_tokens < 1 or not 0 <= self.free_blocks <= self.total_blocks:
            raise InputError("state", (self.free_blocks, self.total_blocks), "0 <= free_blocks <= total_blocks")

    def blocks(self, tokens: int) -> int:
        """Blocks that hold ``tokens``."""
        return ceil(tokens / self.block_tokens)

    def promised(self, reserve: Reserve) -> int:
        """Blocks that running requests will still take, as far as they are reserved."""
        total = 0
        for one in self.running:
            prompt = one.request.prompt_tokens
            now = self.blocks(prompt + one.generated_tokens)
            total += max(self.blocks(prompt + max(one.request.output(reserve), one.generated_tokens)) - now, 0)
        return total


@dataclass(frozen=True)
class Decision:
    """The verdict and what it rests on."""

    action: Action
    reasons: tuple[str, ...]
    needed_blocks: int
    available_blocks: int


def admit(state: State, request: Request, policy: Policy) -> Decision:
    """Admit, queue or reject a request, with every reason that applies.

    Rejected: what never fits (context limit, more blocks than the cache has), and what would wait behind a full queue.
    Queued: no room among the running ones, or fewer blocks free than the reservation needs once those promised to
    running requests, the watermark and the share held back for more urgent requests are set aside. Blocks of the cached
    prompt are shared and not needed again.
    """
    longest = request.prompt_tokens + request.max_output_tokens
    reserved = request.prompt_tokens + request.output(policy.reserve)
    shared = request.cached_tokens // state.block_tokens
    needed = max(state.blocks(reserved) - shared, 0)
    aside = ceil(policy.watermark * state.total_blocks)
    aside += ceil(policy.held_back.get(request.priority, 0.0) * state.total_blocks)
    available = state.free_blocks - state.promised(policy.reserve) - aside

    never = []
    if longest > policy.max_context_tokens:
        never.append(f"needs a context of {longest:,} tokens, the limit is {policy.max_context_tokens:,}")
    if state.blocks(reserved) > state.total_blocks - aside:
        never.append(f"needs {state.blocks(reserved):,} blocks, the cache has {state.total_blocks - aside:,} for it")
    if never:
        return Decision("reject", tuple(never), needed, available)

    later = []
    if len(state.running) >= policy.max_sequences:
        later.append(f"{len(state.running):,} requests run, the limit is {policy.max_sequences:,}")
    if needed > available:
        later.append(f"needs {needed:,} blocks, {max(available, 0):,} are not promised or kept back")
    if not later:
        return Decision("admit", (f"{needed:,} of {available:,} blocks",), needed, available)
    if state.waiting >= policy.max_waiting:
        full = f"{state.waiting:,} requests wait, the limit is {policy.max_waiting:,}"
        return Decision("reject", (*later, full), needed, available)
    return Decision("queue", tuple(later), needed, available)
