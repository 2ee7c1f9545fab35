"""The catalogue: hardware_db/ and model_specs/, as shipped, overlaid by a user's own folder.

An overlay has the same layout (``accelerators/``, ``nodes/``, ``models/`` or ``model_specs/``, with or without
``hardware_db/`` above, ``prices.yaml``). A file there replaces the shipped entry of the same id, or adds one. Files are
read when asked for, each once.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, Literal, TypeVar

from pydantic import BaseModel

from planner.catalog.files import read_json, read_yaml
from planner.catalog.hardware_spec import Accelerator, Node
from planner.catalog.model_spec import ModelSpec
from planner.catalog.prices import Prices
from planner.catalog.validation import validate
from planner.errors import LISTED_BY, InputError, UnknownNameError, UnsupportedArchitectureError

CATALOG_VARIABLE = "PLANNER_CATALOG_DIR"
Kind = Literal["model", "accelerator", "node"]
KINDS: tuple[Kind, ...] = ("model", "accelerator", "node")

_FOLDERS: Mapping[str, tuple[str, ...]] = {
    "model": ("model_specs", "models"),
    "accelerator": ("hardware_db/accelerators", "accelerators"),
    "node": ("hardware_db/nodes", "nodes"),
    "prices": ("hardware_db", "."),
    "sources": ("hardware_db", "."),
    "engine": ("hardware_db/engines", "engines"),
}
ENGINE_PARTS = ("memory", "layout", "scheduler")
M = TypeVar("M", bound=BaseModel)


@lru_cache(maxsize=1)
def data_root() -> Path:
    """The folder that holds hardware_db/ and model_specs/: inside an installed wheel, else the repository.

    Raises InputError where neither is there.
    """
    package = Path(__file__).resolve().parents[1]
    for root in (package / "_data", package.parent):
        if (root / "hardware_db").is_dir():
            return root
    raise InputError("catalogue", str(package), "an installation with its data files (hardware_db/, model_specs/)")


def catalog(user_dir: Path | str | None = None) -> Catalog:
    """The catalogue, overlaid by ``user_dir`` or else by the folder in the variable PLANNER_CATALOG_DIR.

    Raises InputError where that folder does not exist.
    """
    folder = user_dir if user_dir is not None else os.environ.get(CATALOG_VARIABLE) or None
    return _catalog(None if folder is None else Path(folder).expanduser().resolve())


@lru_cache(maxsize=8)
def _catalog(folder: Path | None) -> Catalog:
    return Catalog(folder)


def load_model(ref: str | Path, user_dir: Path | str | None = None) -> ModelSpec:
    """A model by catalogue id, Hugging Face id, path to a specification YAML, or path to a config.json.

    Raises UnknownNameError for a name that is neither known nor a file, InputError for a bad file and
    UnsupportedArchitectureError for a config that is not understood.
    """
    path = Path(ref)
    if path.suffix == ".json":
        from planner.catalog.hf_config import spec_from_hf_config

        config = read_json(path)
        if not config.get("_name_or_path"):
            config["_name_or_path"] = _hub_name(path) or _config_id(path)
        try:
            return spec_from_hf_config(config)
        except UnsupportedArchitectureError as error:
            raise UnsupportedArchitectureError(error.keys, error.allowed, path.name) from None
        except InputError as error:
            raise InputError(error.field.replace("config.json", path.name, 1), error.given, error.allowed) from None
    if path.suffix in (".yaml", ".yml"):
        return validate(ModelSpec, read_yaml(path), str(path))
    known = catalog(user_dir)
    name = str(ref)
    for spec_id in known.model_ids():
        if name == spec_id:
            return known.model(spec_id)
    if "/" in name:
        for spec_id in known.model_ids():
            spec = known.model(spec_id)
            if spec.hf_id is not None and spec.hf_id.lower() == name.lower():
                return spec
        raise UnknownNameError(
            "model", name, [s.hf_id for s in map(known.model, known.model_ids()) if s.hf_id], LISTED_BY["model"]
        )
    raise UnknownNameError("model", name, known.model_ids(), LISTED_BY["model"])


def _config_id(path: Path) -> str:
    """What a file is called, or its folder where it is a plain config.json."""
    return path.resolve().parent.name if path.stem == "config" else path.stem.removesuffix("_config")


_HUB = re.compile(r"(?:models--)?([A-Za-z0-9][\w.-]*?)(?:__|--)([A-Za-z0-9][\w.-]*)")


def _hub_name(path: Path) -> str | None:
    """``owner/model`` where the file or a folder above it is named as download tools do: owner__model, owner--model,
    models--owner--model; else None."""
    above = [p for p in path.resolve().parts[:-1] if p.startswith("models--")]
    for name in (_config_id(path), *above):
        if match := _HUB.fullmatch(name):
            return f"{match[1]}/{match[2]}"
    return None


class Catalog:
    """Entries by id. Methods raise UnknownNameError for an unknown id and InputError for a bad file."""

    def __init__(self, user_dir: Path | None = None) -> None:
        if user_dir is not None and not user_dir.is_dir():
            raise InputError(f"catalogue folder ({CATALOG_VARIABLE})", str(user_dir), "a folder that exists")
        self.user_dir = user_dir
        self._roots = (data_root(), *((user_dir,) if user_dir else ()))
        self._loaded: dict[tuple[str, str], Any] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        """In another process, the catalogue of the same folder there."""
        return _catalog, (self.user_dir,)

    def model(self, id: str) -> ModelSpec:
        return self._entry("model", id, ModelSpec)

    def accelerator(self, id: str) -> Accelerator:
        return self._entry("accelerator", id, Accelerator)

    def node(self, id: str) -> Node:
        node = self._entry("node", id, Node)
        if node.accelerator not in self._index["accelerator"]:
            raise UnknownNameError(
                f"node {id}: accelerator", node.accelerator, self._index["accelerator"], LISTED_BY["accelerator"]
            )
        return node

    def engine(self, name: str) -> dict[str, Any]:
        """The parts known of an engine (memory, layout, scheduler) as read; their rooms validate them."""
        if name not in self.engine_names():
            raise UnknownNameError("engine", name, self.engine_names())
        parts: dict[str, Any] = {}
        for part in ENGINE_PARTS:
            path = self._files(tuple(f"{f}/{part}" for f in _FOLDERS["engine"])).get(name)
            if path is not None:
                parts[part] = read_yaml(path)
        return parts

    def engine_names(self) -> list[str]:
        names = {n for part in ENGINE_PARTS for n in self._files(tuple(f"{f}/{part}" for f in _FOLDERS["engine"]))}
        return sorted(names)

    def prices(self) -> Prices:
        """All price facts; a user's prices.yaml replaces the shipped one."""
        path = self._files(_FOLDERS["prices"])["prices"]
        return self._once("prices", "prices", lambda: validate(Prices, read_yaml(path), _short(path)))

    def sources(self) -> dict[str, str]:
        """What the short source keys (MLE, AIC, ...) stand for."""
        path = self._files(_FOLDERS["sources"])["sources"]
        return self._once("sources", "sources", lambda: dict(read_yaml(path)["sources"]))

    def model_ids(self) -> list[str]:
        return sorted(self._index["model"])

    def accelerator_ids(self) -> list[str]:
        return sorted(self._index["accelerator"])

    def node_ids(self) -> list[str]:
        return sorted(self._index["node"])

    def describe(self, kind: Kind, id: str) -> dict[str, Any]:
        """An entry as plain data with its file, whether it is the user's, and the source keys that it cites."""
        entries = {"model": self.model, "accelerator": self.accelerator, "node": self.node}
        if kind not in entries:
            raise UnknownNameError("kind", kind, KINDS)
        entry: BaseModel = entries[kind](id)
        path = self._index[kind][id]
        text = entry.model_dump_json()
        cited = {key: meaning for key, meaning in self.sources().items() if _cites(text, key)}
        mine = self.user_dir is not None and path.is_relative_to(self.user_dir)
        return {
            "kind": kind,
            "id": id,
            "file": _short(path),
            "origin": "user" if mine else "shipped",
            "entry": entry.model_dump(mode="json", exclude_none=True),
            "cited_sources": cited,
        }

    @cached_property
    def version(self) -> str:
        """Short hash of the content of every catalogue file in use: equal catalogues, equal version."""
        digest = hashlib.sha256()
        paths = [p for kind in KINDS for p in self._index[kind].values()]
        paths += [self._files(_FOLDERS["prices"])["prices"]]
        for path in sorted(paths, key=lambda p: (p.parent.name, p.name)):
            digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
        return digest.hexdigest()[:12]

    @cached_property
    def _index(self) -> dict[str, dict[str, Path]]:
        return {kind: self._files(_FOLDERS[kind]) for kind in KINDS}

    def _files(self, folders: tuple[str, ...]) -> dict[str, Path]:
        """Stem to path over all roots; later roots (the user's) replace earlier ones."""
        found: dict[str, Path] = {}
        for root in self._roots:
            for folder in folders:
                for path in sorted((root / folder).glob("*.y*ml")):
                    found[path.stem] = path
        return found

    def _entry(self, kind: Kind, id: str, schema: type[M]) -> M:
        if id not in self._index[kind]:
            raise UnknownNameError(kind, id, self._index[kind], LISTED_BY[kind])
        return self._once(kind, id, lambda: self._read(self._index[kind][id], id, schema))

    def _read(self, path: Path, id: str, schema: type[M]) -> M:
        entry = validate(schema, read_yaml(path), _short(path))
        if getattr(entry, "id", id) != id:
            raise InputError(f"{_short(path)}: id", getattr(entry, "id", None), f"must be {id!r}, the file's name")
        return entry

    def _once(self, kind: str, id: str, make: Any) -> Any:
        key = (kind, id)
        if key not in self._loaded:
            self._loaded[key] = make()
        return self._loaded[key]


def _short(path: Path) -> str:
    """The end of a path that a reader recognises."""
    return "/".join(path.parts[-3:])


def _cites(text: str, key: str) -> bool:
    return re.search(rf"(?<![A-Za-z0-9]){re.escape(key)}(?![A-Za-z0-9])", text) is not None
