"""Model specifications as YAML text, in the order and shape of the shipped files."""

from __future__ import annotations

from typing import Any

import yaml

from planner.catalog.model_spec import ModelSpec


class _Dumper(yaml.SafeDumper):
    """Block style at the top, flow style for leaves, no aliases."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def spec_to_yaml(spec: ModelSpec) -> str:
    """YAML that loads back to an equal specification; defaults are left out, ``kind`` is kept."""
    data = spec.model_dump(exclude_defaults=True)
    for part in ("attentions", "feed_forwards"):
        for key, value in data[part].items():
            data[part][key] = {"kind": getattr(spec, part)[key].kind, **value}
    return yaml.dump(
        _plain(data), Dumper=_Dumper, sort_keys=False, default_flow_style=None, width=110, allow_unicode=True
    )


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value
