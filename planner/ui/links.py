"""A session's scenario in an address: JSON, compressed, in the alphabet of addresses, with its version in front.

What comes in is bounded before it is unpacked, checked as an upload is, and opens no file.
"""

from __future__ import annotations

import base64
import binascii
import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from planner.catalog.validation import check_mapping
from planner.errors import InputError
from planner.scenario.safe_yaml import dump_yaml
from planner.scenario.schema import Scenario
from planner.ui import upload
from planner.ui.i18n import _
from planner.ui.overlay import Entries, checked, used

VERSION = "1"
MAX_CHARACTERS = 6_000
"""Reverse proxies take a request line of 8 kB."""
MAX_UNPACKED_BYTES = 256 << 10


@dataclass(frozen=True)
class Linked:
    """What a link carries: a scenario, the session's own hardware that it uses, the rank of the chosen candidate."""

    scenario: Scenario
    entries: Entries = field(default_factory=dict)
    rank: int | None = None


def pack(linked: Linked) -> str:
    """The value of the address's parameter; raises InputError where the scenario is too long for one."""
    content: dict[str, Any] = {"scenario": linked.scenario.to_dict()}
    if entries := used(linked.entries, linked.scenario):
        content["catalogue"] = entries
    if linked.rank is not None and linked.rank > 1:
        content["rank"] = linked.rank
    raw = json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode()
    text = f"{VERSION}.{base64.urlsafe_b64encode(zlib.compress(raw, 9)).decode().rstrip('=')}"
    if len(text) > MAX_CHARACTERS:
        raise InputError(
            _("link"),
            linked.scenario.name,
            _("it is too long for a link ({n} characters, at most {most}); save it as YAML instead").format(
                n=len(text), most=MAX_CHARACTERS
            ),
        )
    return text


def text(linked: Linked) -> str:
    """The scenario as the YAML of a file; the session's own hardware that it uses goes with it, as in a link."""
    entries = used(linked.entries, linked.scenario)
    if not entries:
        return linked.scenario.to_yaml()
    return dump_yaml({**linked.scenario.to_dict(), "catalogue": entries})


def from_text(yaml: str, where: str) -> Linked:
    """The scenario, and hardware that came with it, of :func:`text`'s YAML, of any scenario or of a plan.

    Raises InputError in one sentence; files that the scenario names are not opened.
    """
    data = upload.mapping_from_text(yaml, where)
    entries = checked(data.pop("catalogue", None) or {}, f"{where}: catalogue")
    return Linked(upload.scenario_from_mapping(data, where), entries)


def unpack(text: str) -> Linked:
    """The content of :func:`pack`'s text; raises InputError in one sentence for anything else."""
    where = _("link")
    if len(text) > MAX_CHARACTERS:
        raise InputError(where, text[:20] + "…", _("at most {n} characters").format(n=MAX_CHARACTERS))
    version, dot, body = text.partition(".")
    if not dot or version != VERSION:
        start = f"{VERSION}."
        raise InputError(where, text[:20], _("this version reads links that start with {start}").format(start=start))
    data = check_mapping(_json(body, where), where)
    scenario = upload.scenario_from_mapping(check_mapping(data.get("scenario"), where), where)
    entries = checked(data.get("catalogue") or {}, where)
    rank = data.get("rank")
    return Linked(scenario, entries, rank if isinstance(rank, int) and 0 < rank < 1_000_000 else None)


def _json(body: str, where: str) -> Any:
    damaged = InputError(where, f"{body[:20]}…", _("it is cut off or damaged; ask for it again"))
    try:
        packed = base64.b64decode(body + "=" * (-len(body) % 4), altchars=b"-_", validate=True)
        inflate = zlib.decompressobj()
        raw = inflate.decompress(packed, MAX_UNPACKED_BYTES)
        if inflate.unconsumed_tail or not inflate.eof:
            raise damaged
        data = json.loads(raw)
    except (binascii.Error, zlib.error, ValueError, RecursionError):
        raise damaged from None
    if upload.depth(data) > upload.MAX_JSON_DEPTH:
        raise damaged
    return data


def parameters(packed: str | None, language: str | None) -> Mapping[str, str]:
    """The address's parameters."""
    return {k: v for k, v in (("s", packed), ("lang", language)) if v}
