"""``planner catalog`` and ``planner import-model``: what is known, and how a model becomes known."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from planner.cli.options import CatalogOption, JsonOption, OutOption
from planner.cli.output import console, log, print_json, table, write_text
from planner.errors import UnknownNameError
from planner.search.headline import sig3

if TYPE_CHECKING:
    from planner.catalog.catalog import Catalog
    from planner.catalog.model_spec import ModelSpec

KINDS = ("models", "accelerators", "nodes")


def catalog_command(
    kind: Annotated[str | None, typer.Argument(help="models, accelerators or nodes; absent lists all.")] = None,
    name: Annotated[str | None, typer.Argument(help="Id of one entry, shown in full.")] = None,
    catalog: CatalogOption = None,
    as_json: JsonOption = False,
) -> int:
    """List the models, accelerators and nodes that are known, or show one entry with its sources."""
    from planner.catalog import catalog as open_catalog

    if kind is not None and kind not in KINDS:
        raise UnknownNameError("catalog", kind, KINDS)
    known = open_catalog(catalog)
    ids = {
        "models": list(known.model_ids()),
        "accelerators": list(known.accelerator_ids()),
        "nodes": list(known.node_ids()),
    }
    if kind is not None and name is not None:
        _show_entry(known, kind, name, as_json)
        return 0
    shown = {k: v for k, v in ids.items() if kind in (None, k)}
    if as_json:
        print_json({**shown, "version": known.version})
        return 0
    out = console()
    for title, names in shown.items():
        out.print(table(f"{len(names)} {title}", ("id",), ((n,) for n in names)))
    out.print(f"catalogue {known.version}", style="dim")
    return 0


def _show_entry(known: Catalog, kind: str, name: str, as_json: bool) -> None:
    entry: Any = {"models": known.model, "accelerators": known.accelerator, "nodes": known.node}[kind](name)
    data = entry.model_dump(mode="json", by_alias=True)
    if as_json:
        print_json(data)
    else:
        from planner.scenario.safe_yaml import dump_yaml

        print(dump_yaml(data), end="")


def import_model_command(
    config: Annotated[Path, typer.Argument(help="Hugging Face config.json, or a model specification YAML.")],
    out: OutOption = None,
    as_json: JsonOption = False,
) -> int:
    """Turn a Hugging Face config.json into a model specification, without network."""
    from planner.catalog import load_model
    from planner.errors import InputError
    from planner.scenario.safe_yaml import dump_yaml

    if not config.is_file():
        raise InputError("CONFIG", str(config), "a config.json or model YAML that exists")
    spec = load_model(str(config))
    if out is not None:
        write_text(out, dump_yaml(spec.model_dump(mode="json", exclude_none=True, exclude_defaults=True)))
        log(f"model specification written to {out}")
    facts = model_facts(spec)
    if as_json:
        print_json(facts)
        return 0
    parameters = facts["parameters"]
    rows = [
        ("parameters, total", sig3(parameters["total"] / 1e9) + " B"),
        ("parameters, active per token", sig3(parameters["active"] / 1e9) + " B"),
        ("layers", str(facts["layers"])),
        ("attention", ", ".join(facts["attention"])),
        ("feed-forward", ", ".join(facts["feed_forward"])),
        ("KV cache, bf16", f"{facts['kv_bytes_per_token_bf16']:,.0f} bytes per token"),
        ("precision", ", ".join(f"{k} {v}" for k, v in facts["precision"].items())),
        ("context", f"{facts['max_context_tokens']:,} tokens"),
    ]
    console().print(table(f"{facts['id']} ({facts['family']})", ("", "value"), rows, text=2))
    return 0


def model_facts(spec: ModelSpec) -> dict[str, Any]:
    """What ``import-model --json`` prints: counts, attention and feed-forward kinds, KV bytes, precision."""
    from planner.model.kv import kv_bytes_per_token
    from planner.model.parameters import count

    counted = count(spec)
    return {
        "id": spec.id,
        "name": spec.name,
        "family": spec.family,
        "parameters": {
            "total": int(counted.total),
            "active": int(counted.active),
            "main": int(counted.main),
            "mtp": int(counted.mtp),
            "vision": int(counted.vision),
        },
        "layers": sum(group.count for group in spec.layers),
        "hidden_size": spec.hidden_size,
        "vocab_size": spec.vocab_size,
        "max_context_tokens": spec.max_context_tokens,
        "attention": sorted({a.kind for a in spec.attentions.values()}),
        "feed_forward": sorted({f.kind for f in spec.feed_forwards.values()}),
        "kv_bytes_per_token_bf16": float(kv_bytes_per_token(spec, "bf16")),
        "precision": dict(spec.precision),
        "notes": list(spec.notes),
    }
