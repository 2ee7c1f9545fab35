"""The planner's terms in plain words: labels, and what an abbreviation means when the pointer rests on it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache

from planner.evidence.runs import LAYOUT
from planner.scenario.schema import Scenario
from planner.search.alike import apart
from planner.search.in_flight import counted
from planner.search.plan_schema import Candidate, Layout, Pool
from planner.ui.i18n import _, ngettext
from planner.ui.numbers import count


def memory_terms() -> dict[str, tuple[str, str]]:
    """Memory term -> (label, what it is), in the order they are drawn."""
    return {
        "weights": (_("Weights"), _("All parameters stored on this GPU, every expert included.")),
        "kv": (_("KV cache"), _("Keys and values of past tokens; what is left for requests in flight.")),
        "workspace": (_("Workspace"), _("Peak of activations and of the sampler.")),
        "collectives": (_("Comm. buffers"), _("Communication buffers: collectives and expert dispatch.")),
        "graphs": (_("CUDA graphs"), _("Captured decode steps.")),
        "runtime": (_("Runtime"), _("Driver and framework context.")),
        "margin": (_("Margin"), _("Left unused on purpose.")),
    }


def bounds() -> dict[str, str]:
    """What limits an operator, in words."""
    return {
        "compute": _("arithmetic"),
        "memory": _("memory bandwidth"),
        "network": _("communication"),
        "latency": _("fixed latency"),
        "host": _("host work"),
    }


def phases() -> dict[str, str]:
    """Kind of step, in words."""
    return {"decode": _("Decode step"), "prefill": _("Prefill step"), "mixed": _("Mixed step")}


def objectives() -> dict[str, str]:
    """What ranks the candidates, in words."""
    return {
        "lowest_cost": _("Lowest cost per token"),
        "fewest_gpus": _("Fewest GPUs"),
        "highest_goodput": _("Highest goodput per GPU in use"),
        "lowest_energy": _("Lowest energy per token"),
        "lowest_ttft": _("Shortest time to first token"),
        "lowest_tbt": _("Shortest time between tokens"),
    }


def servings() -> dict[str, str]:
    """Serving mode, in words."""
    return {"agg": _("aggregated"), "disagg": _("disaggregated")}


def engines() -> dict[str, str]:
    """Engine names as their makers write them."""
    return {"vllm": "vLLM", "sglang": "SGLang", "trtllm": "TensorRT-LLM"}


def length_kinds() -> dict[str, str]:
    """Kinds of length distribution, in words."""
    return {
        "fixed": _("all the same"),
        "uniform": _("between two bounds"),
        "lognormal": _("long tail"),
        "empirical": _("measured (from the file)"),
    }


def arrival_kinds() -> dict[str, str]:
    """Kinds of arrival, in words."""
    return {
        "closed_loop": _("fixed number in flight (closed loop)"),
        "poisson": _("independent users (Poisson)"),
        "gamma": _("bursty or smooth (Gamma)"),
        "trace": _("measured (from the file)"),
    }


def percentiles() -> dict[str, str]:
    """Percentile names."""
    return {
        "mean": _("mean"),
        "p50": _("median"),
        "p90": "p90",
        "p95": "p95",
        "p99": "p99",
    }


def latencies() -> dict[str, tuple[str, str, str]]:
    """Metric -> (label, abbreviation, what it means)."""
    return {
        "ttft_ms": (
            _("Time to first token"),
            "TTFT",
            _("From the arrival of a request until its first output token."),
        ),
        "tbt_ms": (
            _("Time between tokens"),
            "TBT",
            _("Every gap between two output tokens of a request (also called ITL)."),
        ),
        "tpot_ms": (
            _("Time per output token"),
            "TPOT",
            _("Mean gap between the output tokens of one request, the first token left out."),
        ),
        "e2e_ms": (_("Whole request"), "E2E", _("From the arrival of a request until its last token.")),
    }


def precision_classes() -> dict[str, str]:
    """Tensor classes of the precision plan, in words."""
    return {
        "default": _("Everything not named below"),
        "attention": _("Attention projections"),
        "dense_mlp": _("Dense feed-forward layers"),
        "shared_experts": _("Shared experts"),
        "routed_experts": _("Routed experts"),
        "kv": _("KV cache"),
        "activations": _("Activations"),
        "dispatch": _("Tokens sent to experts (dispatch)"),
        "combine": _("Expert outputs sent back (combine)"),
        "embedding": _("Input embedding"),
        "head": _("Output head"),
        "router": _("Expert router"),
        "norm": _("Norms"),
        "indexer": _("Sparse-attention indexer"),
        "vision": _("Vision tower"),
    }


def layout_help() -> str:
    """The abbreviations of a layout."""
    return _(
        "TP (tensor parallel): every GPU holds a slice of each attention matrix. "
        "DP (attention data parallel): each GPU keeps the attention of its own requests. "
        "EP (expert parallel): each GPU holds some of the experts. "
        "PP (pipeline parallel): each GPU group holds some of the layers. "
        "ETP: slices inside one expert. +n: copies of hot experts."
    )


def serving_help() -> str:
    """Aggregated and disaggregated serving."""
    return _(
        "Aggregated: the same GPUs read prompts (prefill) and write answers (decode). "
        "Disaggregated: one pool of GPUs reads prompts, another writes answers, and the KV cache is sent across."
    )


def term_name(term: str) -> str:
    """An operator in words."""
    known = {
        "attention_core": _("Attention"),
        "attention": _("Attention"),
        "attention_projections": _("Attention projections"),
        "dense_mlp": _("Dense feed-forward"),
        "norms": _("Norms"),
        "norms_other": _("Norms and other"),
        "mla_bmm": _("Latent projections"),
        "kv_transfer": _("KV transfer"),
        "indexer": _("Sparse-attention indexer"),
        "router": _("Router"),
        "routed_experts": _("Routed experts"),
        "shared_experts": _("Shared experts"),
        "dispatch": _("Dispatch"),
        "combine": _("Combine"),
        "collectives": _("Collectives"),
        "head": _("Head"),
        "sampling": _("Sampling"),
        "pp_send": _("Pipeline sends"),
        "drafts": _("Draft tokens"),
        "host": _("Host"),
    }
    return known.get(term) or term.replace("_", " ").strip().capitalize()


def operators() -> dict[str, str]:
    """Operator class (of a curve), in words."""
    return {
        "gemm": _("Matrix product"),
        "prefill_attention": _("Prompt attention"),
        "decode_attention": _("Decode attention"),
        "prefill_mla": _("Prompt attention (MLA)"),
        "decode_mla": _("Decode attention (MLA)"),
        "mla_bmm": _("Latent projections (MLA)"),
        "moe": _("Expert layers"),
        "moe_deepep_prefill": _("Experts behind dispatch (prompts)"),
        "moe_deepep_decode": _("Experts behind dispatch (decode)"),
        "all_reduce": _("All-reduce"),
        "all_gather": _("All-gather"),
        "reduce_scatter": _("Reduce-scatter"),
        "all_to_all": _("All-to-all"),
        "deepep_ll_dispatch": _("Dispatch (low latency)"),
        "deepep_ll_combine": _("Combine (low latency)"),
        "deepep_normal_dispatch": _("Dispatch (high throughput)"),
        "deepep_normal_combine": _("Combine (high throughput)"),
        "send": _("Point to point"),
    }


def reason_name(reason: str) -> str:
    """A typed reason of rejection in words."""
    known = {
        "memory": _("Does not fit GPU memory"),
        "kv_cache": _("No room for one request's KV cache"),
        "max_gpus": _("More GPUs than allowed"),
        "nodes": _("More nodes than allowed"),
        "slo_ttft": _("Time to first token over its limit"),
        "slo_tbt": _("Time between tokens over its limit"),
        "slo_tpot": _("Time per output token over its limit"),
        "slo_e2e": _("Whole request over its limit"),
        "rate": _("Does not keep up with the load"),
        "hardware_facts": _("Facts about the hardware are missing"),
        "operator_data": _("No operator times for this accelerator and format"),
        "dense_model_is_not_expert_parallel": _("Expert parallel without experts"),
        "heads_not_divisible": _("Attention heads do not divide"),
        "kv_heads_not_divisible": _("Key-value heads do not divide"),
        "linear_heads_not_divisible": _("Linear-attention heads do not divide"),
        "dense_width_not_divisible": _("Feed-forward width does not divide"),
        "expert_width_not_divisible": _("Expert width does not divide"),
        "attention_shard_not_aligned": _("Attention slice does not fit the quantisation blocks"),
        "dense_shard_not_aligned": _("Feed-forward slice does not fit the quantisation blocks"),
        "expert_shard_not_aligned": _("Expert slice does not fit the quantisation blocks"),
        "vocabulary_not_divisible": _("Vocabulary does not divide"),
        "experts_not_divisible": _("Experts do not divide"),
        "redundant_experts_not_possible": _("Copies of experts not possible"),
        "engine_expert_split": _("The engine does not split experts so"),
        "dispatch_needs_full_ep": _("Expert dispatch needs whole experts"),
        "engine_attention_dp": _("The engine has no such attention data parallelism"),
        "pipeline_stages": _("Too many pipeline stages"),
        "speculation_over_stages": _("No speculative decoding over pipeline stages"),
        "not_whole_nodes": _("Not a whole number of nodes"),
        "tp_leaves_the_domain": _("Tensor parallelism leaves the fast links"),
    }
    return known.get(reason) or term_name(reason)


def subject_name(subject: str) -> str:
    """What a mark is about, in words."""
    if subject in latencies():
        return latencies()[subject][0]
    known = {
        "memory_gib": _("memory of a GPU"),
        "end-to-end coefficients": _("end-to-end coefficients"),
        "output_tokens_per_s_per_gpu": _("output tokens per second and GPU"),
        "usd_per_mtok": _("cost per token"),
        "percentiles under load": _("percentiles under load"),
        "engine.version": _("engine version"),
        "end-to-end check": _("end-to-end check"),
    }
    return known.get(subject) or subject.replace("_", " ")


_SPELLINGS = {
    "pcie": "PCIe",
    "pro": "PRO",
    "gaudi3": "Gaudi3",
    "cloudmatrix384": "CloudMatrix384",
    "cloud": "cloud",
    "host": "host",
    "v5e": "v5e",
    "v6e": "v6e",
}
_CAPITALS = {"dgx", "hgx", "rtx", "tpu"}


def node_label(node: str) -> str:
    """A node type as people write it: hgx-h800 as HGX H800, mi300x-8 as MI300X ×8."""
    words = []
    for part in node.replace("_", "-").split("-"):
        if part in _SPELLINGS:
            words.append(_SPELLINGS[part])
        elif part.isdigit() and len(part) == 1:
            words.append(f"×{part}")
        elif part in _CAPITALS or any(c.isdigit() for c in part):
            words.append(part.upper())
        else:
            words.append(part.capitalize())
    return " ".join(words)


@lru_cache(maxsize=4096)
def layout_label(layout: Layout) -> str:
    """Shorthand of a layout, such as TP8 EP8."""
    return layout.describe()


def run_layout(word: str) -> str:
    """The layout of a measured run (planner.evidence.e2e_keys.layout_text) as a plan writes it; pools by an arrow."""
    numbers = word.split(".")
    if "-" in numbers or not all(n.isdigit() for n in numbers):
        return word
    values = [int(n) for n in numbers]
    if len(values) == len(LAYOUT):
        return layout_label(Layout(**dict(zip(LAYOUT, values, strict=True))))
    half = len(LAYOUT) + 1
    if len(values) != 2 * half:
        return word
    pools = [values[:half], values[half:]]
    return " → ".join(_workers(p[0], Layout(**dict(zip(LAYOUT, p[1:], strict=True)))) for p in pools)


def _workers(number: int, layout: Layout) -> str:
    return f"{count(number)} × ({layout_label(layout)})"


def _pool(pool: Pool) -> str:
    return _workers(pool.workers, pool.layout)


def deployment(candidate: Candidate) -> str:
    """A deployment in one line: nodes, GPUs (those paid for as well where they are others than those in use), replicas
    and layout, serving mode.
    """
    paid = candidate.gpus_paid
    gpus = ngettext("{n} GPU", "{n} GPUs", candidate.gpus).format(n=count(candidate.gpus))
    if paid is not None and paid != candidate.gpus:
        gpus = _("{paid} GPUs paid for, {used} used").format(paid=count(paid), used=count(candidate.gpus))
    mode = servings()[candidate.serving]
    if candidate.prefill_pool is not None and candidate.decode_pool is not None:
        prefill, decode = candidate.prefill_pool, candidate.decode_pool
        if prefill.node == decode.node:
            where = _nodes(candidate.nodes, candidate.node)
        else:
            where = f"{_nodes(prefill.nodes, prefill.node)} + {_nodes(decode.nodes, decode.node)}"
        return _("{where} · {gpus} = prefill {prefill} + decode {decode} · {mode}").format(
            where=where, gpus=gpus, prefill=_pool(prefill), decode=_pool(decode), mode=mode
        )
    replicas = ngettext("{n} replica", "{n} replicas", candidate.replicas).format(n=count(candidate.replicas))
    return _("{where} · {gpus} = {replicas} × ({layout}) · {mode}").format(
        where=_nodes(candidate.nodes, candidate.node),
        gpus=gpus,
        replicas=replicas,
        layout=layout_label(candidate.layout),
        mode=mode,
    )


def counted_requests(scenario: Scenario, candidate: Candidate) -> tuple[str, str]:
    """Which requests a candidate counts, and what that means."""
    return {
        "workers": (
            _("Requests in the workers"),
            _("On average over the whole deployment, from first step to last token: those that hold KV cache."),
        ),
        "decode": (
            _("Requests in the decode workers"),
            _("On average over all decode workers. Requests that wait or whose prompt is still read are not counted."),
        ),
        "loop": (
            _("Requests in flight"),
            _("Over the whole deployment: as many as the closed loop keeps in flight, waiting ones included."),
        ),
    }[counted(scenario, candidate)]


def short_deployment(candidate: Candidate) -> str:
    """Layout of a candidate for tables and hover boxes."""
    if candidate.prefill_pool is not None and candidate.decode_pool is not None:
        return f"{_pool(candidate.prefill_pool)} → {_pool(candidate.decode_pool)}"
    return _workers(candidate.replicas, candidate.layout)


def settings_apart(candidates: Iterable[Candidate]) -> dict[int, str]:
    """Rank -> what tells a candidate from others that have the same workers, to stand behind them; '' where nothing
    needs to.
    """
    shown = list(candidates)
    differing = apart(shown)
    return {c.rank: "".join(f" · {part}" for part in _settings(differing.get(c.rank, {}))) for c in shown}


def _settings(differing: Mapping[str, int | bool | None]) -> Iterator[str]:
    for name, value in differing.items():
        prefill = name.startswith("prefill_")
        if name.endswith("tokens") and value is not None:
            words = _("prefill {n} tokens a step") if prefill else _("{n} tokens a step")
            yield words.format(n=count(value))
        elif name.endswith("two_batch") and value:
            yield _("prefill with two-batch overlap") if prefill else _("two-batch overlap")


def placed(candidate: Candidate) -> str:
    """The node types of a deployment and its workers, for tables that tell its GPUs apart."""
    pools = (candidate.prefill_pool, candidate.decode_pool)
    nodes = dict.fromkeys(p.node for p in pools if p is not None) or {candidate.node: None}
    return f"{' + '.join(map(node_label, nodes))} · {short_deployment(candidate)}"


def _nodes(number: int | None, node: str) -> str:
    return node_label(node) if number is None else f"{count(number)} × {node_label(node)}"


def reserves() -> dict[str, str]:
    """Output that admission keeps cache blocks for, in words."""
    return {
        "prompt": _("prompt"),
        "expected": _("prompt, expected output"),
        "maximum": _("prompt, longest output"),
    }
