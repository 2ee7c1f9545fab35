"""From a YAML file, YAML text or plain data to a checked :class:`Scenario` that carries all it needs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from planner.catalog.validation import check_mapping, validate
from planner.errors import LISTED_BY, InputError, UnknownNameError
from planner.scenario import files
from planner.scenario.lengths import EmpiricalLength, histogram
from planner.scenario.loads import Trace
from planner.scenario.own_hardware import Entries, grouped
from planner.scenario.safe_yaml import MAX_SCENARIO_BYTES, load_yaml
from planner.scenario.schema import Scenario, Workload

if TYPE_CHECKING:
    from planner.catalog import Catalog, ModelSpec

CARRIED = "catalogue"
"""Key of a scenario or plan file under which hardware of one's own travels."""
_MODEL_FILES = (".yaml", ".yml", ".json")


def load_scenario(source: str | Path, folder: Path | None = None) -> Scenario:
    """The scenario in a YAML file, or in YAML text (a string with a line break).

    ``folder`` is where files that the text names are looked up; for a file it is the file's own folder.
    Raises InputError with one sentence naming the dotted field, what was given and what is allowed.
    """
    if isinstance(source, Path) or "\n" not in source:
        text, folder = read_text(Path(source), MAX_SCENARIO_BYTES), Path(source).resolve().parent
        where = str(source)
    else:
        text, where = source, "scenario"
    data = load_yaml(text, where)
    if isinstance(data, dict) and CARRIED in data:
        allowed = "a scenario alone; load_carrying reads both, and own_hardware.laid_over makes a catalogue of the rest"
        raise InputError(f"{where}: {CARRIED}", "hardware of the file's own", allowed)
    return scenario_from_data(data, folder, where)


def load_carrying(path: Path, text: str | None = None) -> tuple[Scenario, Entries]:
    """The scenario in a YAML file as :func:`load_scenario` reads it, and the hardware that the file carries beside it
    under ``catalogue:``, which is no part of a scenario.

    ``text`` is what the file holds where it has been read already: a pipe gives it once.
    """
    where = str(path)
    data = check_mapping(load_yaml(read_text(path, MAX_SCENARIO_BYTES) if text is None else text, where), where)
    carried = grouped(data.pop(CARRIED, None) or {}, f"{where}: {CARRIED}")
    return scenario_from_data(data, path.resolve().parent, where), carried


def read_text(path: Path, max_bytes: int) -> str:
    """UTF-8 text of a file of at most ``max_bytes``; raises InputError otherwise."""
    try:
        if path.is_dir():
            raise InputError("file", str(path), "a file, not a folder")
        if path.stat().st_size > max_bytes:
            raise InputError("file", str(path), f"a file of at most {max_bytes} bytes")
        with path.open(encoding="utf-8-sig") as file:  # the size of a device or a pipe is not known before
            text = file.read(max_bytes + 1)
        if len(text) > max_bytes:
            raise InputError("file", str(path), f"a file of at most {max_bytes} bytes")
        return text
    except UnicodeDecodeError:
        raise InputError("file", str(path), "UTF-8 text") from None
    except OSError as error:
        raise InputError("file", str(path), f"a file that can be read ({error.strerror})") from None


def scenario_from_data(data: Any, folder: Path | None = None, where: str = "scenario") -> Scenario:
    """A scenario from plain data; files it names are read from ``folder`` into the scenario itself."""
    scenario = validate(Scenario, check_mapping(data, where), where)
    changes: dict[str, Any] = {}
    workload = _with_files(scenario.workload, folder)
    if workload is not scenario.workload:
        changes["workload"] = workload
    if scenario.model_spec is None and scenario.model.lower().endswith(_MODEL_FILES):
        changes["model_spec"] = _model_file(scenario.model, folder)
    check_formats(scenario)
    return scenario.model_copy(update=changes) if changes else scenario


def _with_files(workload: Workload, folder: Path | None) -> Workload:
    changes: dict[str, Any] = {}
    for name in ("input_tokens", "output_tokens"):
        length = getattr(workload, name)
        if isinstance(length, EmpiricalLength) and length.values_tokens is None:
            field = f"workload.{name}"
            path = files.inside(folder, str(length.file), f"{field}.file")
            changes[name] = length.model_copy(update=histogram(files.lengths(path, str(length.column), field)))
    arrival = workload.arrival
    if isinstance(arrival, Trace) and arrival.rate_rps is None:
        path = files.inside(folder, arrival.file, "workload.arrival.file")
        rate, cv = files.arrivals(path, arrival.column, arrival.unit, "workload.arrival")
        changes["arrival"] = arrival.model_copy(update={"rate_rps": rate, "cv": cv})
    return workload.model_copy(update=changes) if changes else workload


def _model_file(name: str, folder: Path | None) -> ModelSpec:
    from planner.catalog import load_model

    return load_model(files.inside(folder, name, "model"))


def check_formats(scenario: Scenario) -> None:
    """Raises InputError for a precision class whose number format is not known, or not for that class."""
    from planner.model.precision import FORMATS, resolve_format, resolve_kv_format

    for tensor_class, name in scenario.precision.given().items():
        field = f"precision.{tensor_class}"
        try:
            found = resolve_kv_format(name) if tensor_class == "kv" else resolve_format(name)
        except InputError as error:
            raise InputError(field, name, error.allowed) from None
        if tensor_class == "norm" and not FORMATS[found.name].is_high_precision:
            raise InputError(field, name, "norms stay at 16 bits or more")


def check_names(scenario: Scenario, catalog: Catalog) -> None:
    """Raises InputError for the first model, node or price id that the catalogue lacks, by dotted field."""
    resolve_model(scenario, catalog)
    nodes = catalog.node_ids()
    hardware = scenario.hardware
    lists = {"hardware.candidates": hardware.candidates}
    if hardware.pools is not None:
        lists["hardware.pools.prefill"] = hardware.pools.prefill
        lists["hardware.pools.decode"] = hardware.pools.decode
    for where, choices in lists.items():
        for i, choice in enumerate(choices):
            _known(f"{where}.{i}.node", choice.node, nodes, LISTED_BY["node"])
            size = catalog.node(choice.node).gpus
            if choice.gpus is not None and choice.gpus > size:
                raise InputError(f"{where}.{i}.gpus", choice.gpus, f"at most {size}, the GPUs of {choice.node}")
    priced = [*nodes, *catalog.accelerator_ids()]
    for key in scenario.economics.usd_per_gpu_hour:
        _known(f"economics.usd_per_gpu_hour.{key}", key, priced, "planner catalog")


def _known(field: str, name: str, valid: list[str], listed_by: str) -> None:
    if name not in set(valid):
        raise UnknownNameError(field, name, valid, listed_by)


def resolve_model(scenario: Scenario, catalog: Catalog) -> ModelSpec:
    """The model's specification: the one written in the scenario, else the catalogue's (by id or Hugging Face id).

    Raises UnknownNameError naming the nearest ids.
    """
    from planner.catalog import load_model

    return scenario.model_spec if scenario.model_spec is not None else load_model(scenario.model, catalog.user_dir)
