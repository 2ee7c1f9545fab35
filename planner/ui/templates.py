"""The planner's own sentences as templates with named fields: what :mod:`planner.ui.phrases` translates by."""

from __future__ import annotations

from planner.ui.i18n import N_
from planner.ui.refusals import REFUSALS

UNKNOWN = N_("an unknown number of")

WORDS = (
    N_("decode"),
    N_("prefill"),
    N_("mixed"),
    N_("compute"),
    N_("memory bandwidth"),
    N_("network bandwidth"),
    N_("launch and network latency"),
    N_("host time"),
    N_("attention projections"),
    N_("attention"),
    N_("routing"),
    N_("routed experts"),
    N_("shared experts"),
    N_("feed-forward layers"),
    N_("norms and small kernels"),
    N_("the output head"),
    N_("all-reduce"),
    N_("expert dispatch"),
    N_("expert combine"),
    N_("pipeline sends"),
    N_("network"),
    N_("scale-up link"),
    N_("draft tokens"),
    N_("scheduling on the host"),
    N_("dense mlp"),
    N_("median of on-demand offers"),
    N_("middle of on-demand offers"),
    N_("taken from a published calculation"),
    N_("three-year contract, no on-demand price is known"),
    N_("same die with slower links"),
    N_("same generation"),
    N_("nearest generation"),
    N_("same die as {gpu}"),
    N_("same die at lower power"),
    N_("same die with other memory"),
    N_("same die with slower memory"),
    N_("same generation with GDDR memory"),
    N_("same generation with fewer SMs"),
    N_("successor of the same generation"),
    N_("GDDR board of this generation"),
    N_("collectives over PCIe"),
    N_("missing on {text}"),
    N_("another vendor"),
    N_("narrow types are unpacked to 16 bits"),
    N_("absorbed products run in 16 bits"),
    N_(
        "prompt load above 0.9 of the token budget, bursts larger than what the worker holds at once, or KV slots that "
        "run out for more than one in a hundred requests, on one of several attention-DP ranks for more than one in "
        "five hundred"
    ),
)

STAND_INS = (
    N_("{text} by the {given} one's curve with its own bytes"),
    N_("{text} by the {given} one's curve"),
    N_("{text} stands in for {given}"),
    N_("{text} stand in for {given}"),
    N_("{text} stand in"),
    N_("no kernel of its own measured"),
    N_("no {text} measured"),
    N_("{text} with {n}-bit weights in 16-bit math"),
    N_("{text} with {n}-bit weights"),
    N_("weight-only {text} in 16-bit math"),
    N_("weight-only {text}"),
    N_("{gpu} has no {kv} peak: {names} used ({why})"),
    N_("outside the closed forms' range: {why}"),
)
"""Why a curve stands in for another."""

WHO = (
    N_("{n} × {node} · {g} GPUs = {r} replicas × ({layout}) · aggregated"),
    N_("{n} × {node} · {g} GPUs = {r} replica × ({layout}) · aggregated"),
    N_("{g} GPUs = prefill {a} × ({layout}) on {node} + decode {b} × ({layout2}) on {node2} · disaggregated"),
    N_("prefill {a} × {layout} on {node} + decode {b} × {layout2} on {node2}"),
    N_("{layout} on {node} at {n} requests per worker"),
    N_("{layout} on {node} at {n} request per worker"),
    N_("{layout} on {node} with {engine}"),
    N_("{who}, {g} GPUs in all"),
    N_("{layout} on {node}"),
)

WHY = (
    N_("needs {needed} of {available} GiB on its fullest GPU"),
    N_("one request of the longest length needs {needed} GiB of KV, {available} are free"),
    N_("needs {needed} GPUs, {available} are allowed"),
    N_("needs {needed} nodes for the load, {available} are allowed"),
    N_("TTFT is {needed} ms, the limit {available} ms"),
    N_("TBT is {needed} ms, the limit {available} ms"),
    N_("TPOT is {needed} ms, the limit {available} ms"),
    N_("a whole request takes {needed} ms, the limit is {available} ms"),
    N_("the load is {needed} requests/s, {available} are reached"),
    N_("no steady state: the load is more than the workers pass"),
    N_("no operator times for this accelerator and format"),
    N_("the completion rate must be {needed}, {available} is reached"),
    N_("attention DP and EP need routed experts; replicas of a dense model are separate workers"),
    N_("{available} attention heads do not divide over tp = {needed}"),
    N_("{available} KV heads neither divide over tp = {needed} nor replicate evenly on it"),
    N_("{available} linear-attention heads do not divide over tp = {needed}"),
    N_("a feed-forward width of {available} does not divide over tp = {needed}"),
    N_("an expert width of {available} does not divide over moe_tp = {needed}"),
    N_("an attention shard is {available} wide, not a multiple of the quantisation block {needed}"),
    N_("a feed-forward shard is {available} wide, not a multiple of the quantisation block {needed}"),
    N_("an expert shard is {available} wide, not a multiple of the quantisation block {needed}"),
    N_("a vocabulary of {available} does not divide over tp = {needed}"),
    N_("{available} experts (redundant ones included) do not divide over ep = {needed}"),
    N_("{needed} redundant experts, of which at most {available} are possible"),
    N_("the engine places whole experts on all {needed} GPUs of a stage or on none, not on ep = {available}"),
    N_("this expert dispatch needs ep = {needed}, not {available}"),
    N_("the engine runs attention DP on all {needed} GPUs of a stage or on none, not on {available}"),
    N_("{available} layers do not give pp = {needed} stages"),
    N_("the engine has no speculative decoding over pp = {needed} stages"),
    N_("a worker of {needed} GPUs is not a whole number of nodes of {available}"),
    N_("tensor parallelism over {needed} GPUs leaves the fast domain of {available}"),
)

FIXES = (
    N_("use replicas instead"),
    N_("a tp that divides the attention heads"),
    N_("a tp that divides the KV heads or is a multiple of them"),
    N_("a tp that divides the linear-attention heads"),
    N_("a tp that divides the feed-forward width"),
    N_("a moe_tp that divides the expert width, or more ep"),
    N_("a smaller tp"),
    N_("a smaller tp (with attention_dp instead)"),
    N_("a smaller moe_tp with more ep"),
    N_("a tp that divides the vocabulary"),
    N_("an ep that divides the experts, or redundant experts that fill it up"),
    N_("fewer redundant experts"),
    N_("ep = 1 or ep = tp x attention_dp"),
    N_("ep = tp x attention_dp, or another dispatch backend"),
    N_("tp = 1 with attention_dp, or attention_dp = 1"),
    N_("fewer stages"),
    N_("pp = 1, or no speculation"),
    N_("a multiple of the node's GPUs"),
    N_("tp and moe_tp inside the domain, with attention_dp, ep or pp across nodes"),
    N_("add the fact in a catalogue overlay"),
    N_("short by {n} GiB per GPU: fewer requests per worker, or KV cache in fp8"),
    N_("short by {n} GiB per GPU: fewer requests per worker"),
    N_("short by {n} GiB per GPU"),
    N_("nothing that was tried fits: more GPUs per worker, a larger GPU or a smaller format"),
    N_("gpu_memory_utilization {a} instead of {b}"),
    N_("KV cache in fp8"),
    N_("{n} % of the requests at a time"),
    N_("{who} fits ({n} GPUs)"),
    N_("{who} fits ({a} of {b} GiB)"),
    N_("the smallest {metric} reached is {a} ms ({who}), against a limit of {b} ms"),
    N_("{node}: workers of several nodes are left out: the network bandwidth is not sourced"),
    N_("the smallest {metric} with at most {n} GPUs is {a} ms ({who}), against a limit of {b} ms"),
    N_("the smallest {metric} within the nodes allowed is {a} ms ({who}), against a limit of {b} ms"),
    N_("{who} reaches a {metric} of {a} ms, but {why}"),
    N_("{who} reaches a {metric} of {a} ms"),
    N_("{a} nodes instead of {b} ({who})"),
    N_("{a} node instead of {b} ({who})"),
    N_("{who} needs {a} nodes"),
    N_("{who} needs {a} node"),
    N_("short by {n} GiB of KV"),
    N_("a max_model_len of {n} tokens fits"),
    N_("a larger worker"),
)

SENTENCES = (
    N_("{resource} in {term} ({share} of the {step} step)"),
    N_("{resource} ({share} of the {step} step)"),
    N_(
        "10 % more of one resource would shorten the {step} step by: compute {a}, memory bandwidth {b}, "
        "network bandwidth {c}"
    ),
    N_("One worker less is too few: with {a} instead of {b}, at {n} requests per worker, {why}"),
    N_(
        "One worker less is too few: {a} instead of {b} would have {share} more load each, and from about {share2} "
        "more on {why}"
    ),
    N_("the load is more than the workers pass"),
    N_("One worker carries the load, with {n} requests in it on average"),
    N_("Of the limits, {metric} ({at}) leaves the least room: {a} of {b} ms"),
    N_(
        "A prompt's KV cache of {size} MiB moves over the {kind} {n} times, once for each decode rank that holds it, "
        "in {whole} ms and adds {shown} ms to TTFT, latency and waits included; the busiest link carries transfers "
        "{busy} of the time"
    ),
    N_(
        "A prompt's KV cache of {size} MiB moves over the {kind} in {whole} ms and adds {shown} ms to TTFT, latency "
        "and waits included; the busiest link carries transfers {busy} of the time"
    ),
    N_("measured: runs of this model, GPU, engine and layout"),
    N_("near: runs of this model, GPU and engine in other layouts"),
    N_("further: runs on this GPU and engine, of other models"),
    N_("far: runs of this engine, on other GPUs"),
    N_("farthest: no runs of this engine"),
    N_("{op} was not measured on {gpu}: curve of {gpu2} on its own peaks ({why})"),
    N_("{op} was not measured on {gpu}: curve of {gpu2} on its own peaks"),
    N_("{op} was not measured here: curve of {op2}"),
    N_("{op} was measured here but left out ({why}): curve of {op2}"),
    N_("over {x} times the time of this engine's 16-bit kernel on the same rows"),
    N_("not measured on {gpu}: curve of {gpu2} on its own peaks ({why})"),
    N_("not measured on {gpu}: curve of {gpu2} on its own peaks"),
    N_("not measured here: curve of {op2}"),
    N_("nearest in status, no kernel of its own measured"),
    N_("{engine} on {gpu}: no end-to-end runs; coefficients of {names} pooled"),
    N_("{engine} on {gpu}: no end-to-end runs; coefficients of {names}"),
    N_("{engine}: no end-to-end runs to calibrate with; mean of {names}"),
    N_("{fact} of {gpu} is not sourced: the memory sold is taken as usable"),
    N_("{n} of your own runs: times {x}, interval from their scatter"),
    N_("No end-to-end run on {gpu} was measured: how far its times may be off is taken from other accelerators"),
    N_(
        "On {gpu} {n} measured runs were predicted with a median error of {share} in TPOT and {share2} in TTFT, "
        "by fits without their layout"
    ),
    N_("all are of {model}"),
    N_("{n} of {n2} TPOT and {n3} TTFT lie inside the 80 % interval of all accelerators"),
    N_("intervals here come from this accelerator's own errors"),
    N_("too few runs or models for intervals of their own, so those of all accelerators stand"),
)

ASSUMPTIONS = (
    N_(
        "Percentiles are those of a steady stream of requests (CV of the gaps {x}) spread over the least loaded "
        "workers; closed forms, checked by planner replay"
    ),
    N_("Percentiles of a closed loop: a fixed number of requests, varying lengths, prompts that queue one by one"),
    N_("A request that finds no KV slot waits for one; the completion rate counts it as refused"),
    N_("Goodput takes TTFT and the gaps between tokens of a request as independent of each other"),
    N_("Requests have {a} input and {b} output tokens on average"),
    N_(
        "A decode step has at most {n} tokens of a rank, each draft counted, where they go to experts across scale-up "
        "domains: low-latency dispatch holds no more"
    ),
    N_("Workers are as few as meet every limit at the percentile it names, at the offered mean rate"),
    N_("KV cache in {kv}; {model} weights: attention {a}, routed experts {b}"),
    N_("KV cache in {kv}; {model} weights: attention {a}, dense mlp {b}"),
    N_("{share} of prompt tokens are served from the prefix cache and not computed"),
    N_(
        "Prefix caches hold {a} of the prompt tokens; with requests to the worker that knows the prefix they would "
        "hold {b}, to the least loaded one {c}"
    ),
    N_("prefix_hit_rate {a} is not used: prefix_reuse is given too, and the hit rate that follows from it is {b}"),
    N_("Prefix caches are warm: after a start or a failure hits come back only as prefixes are used again"),
    N_(
        "{n} draft tokens a step make {made} tokens; what they cost is computed (wider steps, a layer and the head for "
        "each draft), how often they are accepted is given"
    ),
    N_("No {engine} version is given: memory terms of the newest version known are used"),
    N_(
        "{engine} {version} is newer than the versions known here, {low} to {high}: memory terms and step times are "
        "extrapolated from {near}"
    ),
    N_(
        "{engine} {version} is older than the versions known here, {low} to {high}: memory terms and step times are "
        "extrapolated from {near}"
    ),
    N_("No limit is given under slo: any answer time counts as good, and the objective alone decides"),
    N_("No price of {gpu} is known: costs on {node} are not computed"),
    N_("{node} costs ${usd} per GPU-hour (your price)"),
    N_("{node} costs ${usd} per GPU-hour ({kind}, quoted from ${low} to ${high}; {source})"),
    N_("{node} costs ${usd} per GPU-hour ({kind}; {source})"),
    N_("{node}: the TDP of {gpu} is not known: no energy is computed"),
    N_("{node}: the maximum power of {node2} is not known: {x} x TDP is taken for the rest of the node"),
    N_("{node}: facility overhead: PUE {x} ({source})"),
    N_("Expert popularity varies by {x} of its mean (coefficient of variation); redundant experts even it out"),
    N_("Whole nodes are paid for; GPUs of a node that no worker uses cost as much as the others"),
    N_("Energy includes the rest of the node and a PUE of {x}"),
    N_("Limits are judged over all priority classes together; by class, prompts in service always finish"),
    N_("The rate is that of the busiest hour of the day; other hours run fewer workers of the same layout"),
    N_("The day between its busiest and its quietest hour is smooth, with the mean that is given"),
    N_(
        "Costs per token are those of the busiest hour: over the day, with a mean load of {share} of it, a token of a "
        "fleet of fixed size costs {x} times as much"
    ),
)

SPLIT = (
    N_("prompts no longer interrupt decodes, so workers run fuller"),
    N_("the KV transfer of {n} ms eats the gain"),
    N_("both cost the same, and one kind of worker is simpler"),
    N_("both cost the same, as whole nodes are billed, and one kind of worker is simpler"),
    N_("each pool is billed in whole nodes, which costs more"),
    N_("whole nodes are billed, and two pools fill them less well"),
    N_("two pools cannot fill each other's idle time"),
    N_("{a} GPUs aggregated, {d} split; TBT P99 {gap} and {split} ms"),
    N_(
        "${usd} an hour aggregated ({a} GPUs on {m} node), ${usd2} split ({d} GPUs on {n} node); "
        "TBT P99 {gap} and {split} ms"
    ),
    N_(
        "${usd} an hour aggregated ({a} GPUs on {m} nodes), ${usd2} split ({d} GPUs on {n} nodes); "
        "TBT P99 {gap} and {split} ms"
    ),
    N_(
        "${usd} an hour aggregated ({a} GPUs on {m} node), ${usd2} split ({d} GPUs on {n} nodes); "
        "TBT P99 {gap} and {split} ms"
    ),
    N_(
        "${usd} an hour aggregated ({a} GPUs on {m} nodes), ${usd2} split ({d} GPUs on {n} node); "
        "TBT P99 {gap} and {split} ms"
    ),
    N_("aggregated: {why}"),
    N_("split: {why}"),
    N_("aggregated: {why} and split: {other}"),
    N_("no layout is possible"),
)
"""What decides between aggregated serving and separate pools (planner.search.split_map)."""

LADDER = (
    N_(
        "Load: {text}, not the scenario's workload. Worker: {layout} on {node}, planned for that load and run with {n} "
        "request in flight at all times"
    ),
    N_(
        "Load: {text}, not the scenario's workload. Worker: {layout} on {node}, planned for that load and run with {n} "
        "requests in flight at all times"
    ),
    N_("EP overlap is left out: the model has no experts"),
    N_("EP overlap is left out: a replica has one GPU"),
    N_("EP overlap is left out: {why}"),
    N_("EP overlap is left out: {text}"),
    N_("P/D split: {a} prefill and {b} decode workers; prompts took {share} of the busy time"),
    N_("{way}: {n} requests exceed the context limit or a rank's cache and are left out"),
    N_("{way}: the trace is replayed {n} times over, {m} requests for {k} in flight"),
    N_("one replica, fixed concurrency"),
    N_("continuous batching"),
    N_("prefix cache"),
    N_("EP overlap"),
    N_("P/D split"),
    N_("{n} replicas, prefix-aware routing"),
)
"""What a replayed ladder says beside its rungs, and what the rungs are called there (planner.search.ladder)."""

NOTHING = (
    N_("Nothing serves {model} as asked: {why}. Nearest: {other}"),
    N_("Nothing serves {model} as asked: {why}"),
    N_("no layout is possible on the hardware given"),
    N_("{word} binds (predicted {a} ms, limit {b} ms)"),
    N_("{word} binds ({a} GiB needed, {b} GiB available)"),
    N_("{word} binds ({a} nodes needed, {b} available)"),
    N_("{word} binds ({a} GPUs needed, {b} available)"),
    N_("{word} binds ({a} requests/s asked, {b} requests/s reached)"),
    N_("{word} binds ({a} asked, {b} reached)"),
    N_("{word} binds"),
    N_("the limit on TTFT"),
    N_("the limit on TBT"),
    N_("the limit on TPOT"),
    N_("the limit on whole requests"),
    N_("the completion rate"),
    N_("the number of nodes"),
    N_("the load"),
    N_("memory"),
    N_("memory for the KV cache"),
    N_("max gpus"),
)
"""A plan in which nothing is feasible, in one sentence (planner.search.headline)."""

OWNING = (
    N_(
        "server, NICs, switches and cables on top of the accelerators; {n} servers of {m} H200 for about {x} million "
        "dollars against {usd} dollars for each accelerator"
    ),
    N_("economic life, straight line to the residual value"),
    N_("part of the price that is left at the end"),
    N_("cost of the money that is bound"),
    N_("support contracts and spares, part of the purchase price a year"),
    N_("space, cooling and power delivery for each provisioned kilowatt, without the energy itself"),
    N_("industrial rate"),
    N_("no figure read; the user's own is asked for"),
    N_("no measurement read"),
    N_("given without a source of its own in the collected facts"),
    N_("as {gpu}: same memory"),
    N_("nothing is assumed to be left, as in the depreciation schedules quoted"),
)
"""What the starting values for an owner stand for (hardware_db/owning.yaml), and sources that are none."""

CONFIGS = (
    N_("One MTP block is counted: the published checkpoints store it though the config is silent"),
    N_("The config names no dtype: bf16 taken for weights that are not quantised"),
    N_("The config names {n} MTP modules; the published checkpoint stores none, none are counted"),
    N_("Whether the MTP block repeats embedding and head in the checkpoint is not in the config"),
    N_("{share} of {name} weights stay in {text} (config)"),
)
"""What was taken for granted in reading a config.json (planner.catalog.hf)."""

TEMPLATES = (
    *(*WORDS, *SENTENCES, *ASSUMPTIONS, *FIXES, *WHY, *WHO, *SPLIT, *LADDER, *NOTHING, *OWNING, *CONFIGS),
    *(*STAND_INS, *REFUSALS),
)
