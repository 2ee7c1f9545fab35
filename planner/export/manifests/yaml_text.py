"""YAML as Kubernetes and Helm read it: text that YAML 1.1 or 1.2 could take for something else is quoted."""

from __future__ import annotations

import re
from typing import Any

import yaml

_PLAIN = re.compile(r"[A-Za-z/][\w/.@-]*|--?[A-Za-z][\w.-]*")
_WORDS = frozenset(["y", "n", "yes", "no", "on", "off", "true", "false", "null"])
"""Words that YAML 1.1 reads as booleans or nothing, in any case."""


class _Dumper(yaml.SafeDumper):
    def ignore_aliases(self, data: Any) -> bool:
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    if "\n" in text and not re.search(r"[^\n -~\u00a0-\ud7ff]| \n", text):
        return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|")
    plain = _PLAIN.fullmatch(text) and text.lower() not in _WORDS
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=None if plain else '"')


_Dumper.add_representer(str, _text)


def manifest_yaml(data: dict[str, Any]) -> str:
    """One YAML document: keys in order, scripts and files as literal blocks."""
    return yaml.dump(data, Dumper=_Dumper, sort_keys=False, default_flow_style=False, allow_unicode=True, width=10_000)
