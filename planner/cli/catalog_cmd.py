"""``planner catalog`` and ``planner import-model``: what is known, and how a model becomes known."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from planner.cli.options import CatalogOption, JsonOption, OutOption
from planner.cli.output import console, log, print_json, table, write_text
from planner.errors import InputError, UnknownNameError
from planner.search.headline import sig3
from planner.writing import check_ending

if TYPE_CHECKING:
    from collections.abc import Callable

    from planner.catalog import Catalog, ModelSpec
    from planner.catalog.loader import Kind
    from planner.catalog.model_spec import AttentionSpec

KINDS: dict[str, Kind] = {"models": "model", "accelerators": "accelerator", "nodes": "node"}
_YAML = (".yaml", ".yml")
_TITLES = {
    "models": (("id", "attention", "total B", "active B", "context"), 2),
    "accelerators": (("id", "name", "generation", "memory GB", "bandwidth GB/s", "bf16 TFLOP/s"), 3),
    "nodes": (("id", "accelerator", "GPUs", "scale-up domain", "scale-up GB/s", "NIC Gbit/s"), 2),
}


def catalog_command(
    kind: Annotated[str | None, typer.Argument(help="models, accelerators or nodes; absent lists all.")] = None,
    name: Annotated[str | None, typer.Argument(help="Id of one entry, shown with its sources.")] = None,
    catalog: CatalogOption = None,
    as_json: JsonOption = False,
) -> int:
    """List the models, accelerators and nodes that are known, or show one entry with its sources."""
    from planner.catalog import catalog as open_catalog

    if kind is not None and kind not in KINDS:
        raise UnknownNameError("catalog", kind, KINDS)
    known = open_catalog(catalog)
    if kind is not None and name is not None:
        _show_entry(known, KINDS[kind], name, as_json)
        return 0
    listed = {k: _LISTS[k](known) for k in KINDS if kind in (None, k)}
    if as_json:
        print_json({**listed, "version": known.version})
        return 0
    out = console()
    for k, entries in listed.items():
        columns, words = _TITLES[k]
        rows = ([_cell(v) for v in entry.values()] for entry in entries)
        out.print(table(f"{len(entries)} {k}", columns, rows, text=words))
    out.print(f"catalogue {known.version}", style="dim")
    return 0


def _show_entry(known: Catalog, kind: Kind, name: str, as_json: bool) -> None:
    described = known.describe(kind, name)
    if as_json:
        print_json(described)
    else:
        from planner.scenario.safe_yaml import dump_yaml

        print(dump_yaml(described), end="")


def _models(known: Catalog) -> list[dict[str, Any]]:
    from planner.model.parameters import count

    rows = []
    for spec in map(known.model, known.model_ids()):
        counted = count(spec)
        rows.append(
            {
                "id": spec.id,
                "attention": attention_text(spec),
                "total_b": counted.main / 1e9,
                "active_b": counted.active / 1e9,
                "max_context_tokens": spec.max_context_tokens,
            }
        )
    return rows


def _accelerators(known: Catalog) -> list[dict[str, Any]]:
    return [
        {
            "id": a.id,
            "name": a.name,
            "generation": a.arch,
            "memory_gb": a.memory.gb_sold,
            "bandwidth_gb_s": a.memory.bandwidth_gb_s,
            "bf16_tflops": a.tflops_dense.bf16,
        }
        for a in map(known.accelerator, known.accelerator_ids())
    ]


def _nodes(known: Catalog) -> list[dict[str, Any]]:
    return [
        {
            "id": n.id,
            "accelerator": n.accelerator,
            "gpus": n.gpus,
            "scale_up_domain": n.scale_up.domain,
            "scale_up_gb_s_per_gpu": n.scale_up.unidirectional_gb_s_per_gpu,
            "nic_gbit_s": n.nics.gbit_s if n.nics is not None else None,
        }
        for n in map(known.node, known.node_ids())
    ]


_LISTS: dict[str, Callable[[Catalog], list[dict[str, Any]]]] = {
    "models": _models,
    "accelerators": _accelerators,
    "nodes": _nodes,
}


def _cell(value: Any) -> str:
    if value is None or isinstance(value, float):
        return sig3(value)
    return f"{value:,}" if isinstance(value, int) else str(value)


def import_model_command(
    config: Annotated[Path, typer.Argument(help="Hugging Face config.json, or a model specification YAML.")],
    out: OutOption = None,
    as_json: JsonOption = False,
) -> int:
    """Turn a Hugging Face config.json into a model specification, without network."""
    from planner.catalog import load_model
    from planner.scenario.safe_yaml import dump_yaml

    if not config.is_file() or config.suffix not in (".json", *_YAML):
        raise InputError("CONFIG", str(config), "a config.json or model YAML that exists")
    if out is not None:
        check_ending(out, _YAML)
    spec = load_model(config)
    facts = model_facts(spec)
    if out is not None:
        write_text(out, dump_yaml(spec.model_dump(mode="json", exclude_none=True)))
        log(f"model specification written to {out}")
    if as_json:
        print_json(facts)
        return 0
    parameters = facts["parameters"]
    rows = [
        ("parameters, total", sig3(parameters["total"] / 1e9) + " B (all resident)"),
        ("parameters, active per token", sig3(parameters["active"] / 1e9) + " B"),
        ("layers", str(facts["layers"])),
        ("attention", facts["attention"]),
        ("feed-forward", facts["feed_forward"]),
        ("KV cache, bf16", _cache_text(facts)),
        ("precision", ", ".join(f"{k} {v}" for k, v in facts["precision"].items())),
        ("context", f"{facts['max_context_tokens']:,} tokens"),
    ]
    console().print(table(f"{facts['id']} ({facts['family']})", ("", "value"), rows, text=2))
    return 0


def _cache_text(facts: dict[str, Any]) -> str:
    """Bytes per token, and those that are left of a long sequence where windows have filled."""
    token, long = facts["kv_bytes_per_token_bf16"], facts["kv_bytes_per_token_bf16_beyond_windows"]
    said = f"{token:,.0f} bytes per token"
    return said if token == long else f"{said}, {long:,.0f} once windows are full"


def model_facts(spec: ModelSpec) -> dict[str, Any]:
    """What ``import-model --json`` prints: counts, attention and feed-forward kinds, KV bytes, precision.

    ``total`` is embedding, decoder layers and head, all experts included (what model cards say and what an engine
    loads); MTP blocks and a vision tower are told apart; ``checkpoint`` also counts what MTP blocks store twice.
    """
    from planner.model.kv import kv_bytes_per_token
    from planner.model.parameters import count

    counted = count(spec)
    return {
        "id": spec.id,
        "name": spec.name,
        "hf_id": spec.hf_id,
        "family": spec.family,
        "parameters": {
            "total": int(counted.main),
            "active": int(counted.active),
            "active_without_embedding": int(counted.active_without_embedding),
            "mtp": int(counted.mtp),
            "vision": int(counted.vision),
            "with_mtp_and_vision": int(counted.total),
            "checkpoint": int(counted.with_duplicates),
        },
        "layers": sum(group.count for group in spec.layers),
        "hidden_size": spec.hidden_size,
        "vocab_size": spec.vocab_size,
        "max_context_tokens": spec.max_context_tokens,
        "attention": attention_text(spec),
        "attentions": {k: a.model_dump(mode="json", exclude_none=True) for k, a in spec.attentions.items()},
        "feed_forward": "+".join(sorted({f.kind for f in spec.feed_forwards.values()})),
        "feed_forwards": {k: f.model_dump(mode="json", exclude_none=True) for k, f in spec.feed_forwards.items()},
        "kv_bytes_per_token_bf16": float(kv_bytes_per_token(spec, "bf16")),
        "kv_bytes_per_token_bf16_beyond_windows": float(kv_bytes_per_token(spec, "bf16", 1, math.inf)),
        "precision": dict(spec.precision),
        "notes": list(spec.notes),
    }


def attention_text(spec: ModelSpec) -> str:
    """Kinds of attention in the layers joined by ``+``: mha, gqa, mqa, mla or linear, (local) and (sparse) told."""
    used = {group.attention for group in spec.layers}
    return "+".join(sorted({_attention_kind(a) for key, a in spec.attentions.items() if key in used}))


def _attention_kind(attention: AttentionSpec) -> str:
    if attention.kind == "gqa":
        shared = {1: "mqa", attention.heads: "mha"}.get(attention.kv_heads, "gqa")
        local = " (local)" if attention.window_tokens or attention.chunk_tokens else ""
        return f"{shared}{local}"
    if attention.kind == "mla":
        return "mla (sparse)" if attention.indexer is not None else "mla"
    return attention.kind
