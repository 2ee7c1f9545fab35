"""One scenario a row: which columns a table of scenarios may have, and how a row becomes a scenario."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from planner.errors import InputError, UnknownNameError
from planner.search.record import RESULT_COLUMNS

SECTIONS = (
    *("name", "description", "model", "precision", "hardware", "engine", "workload", "slo", "objective"),
    *("economics", "reliability", "search"),
)
"""Top-level keys of a scenario: a column may also be a dotted key below one of them."""

LOADS = ("rate_rps", "concurrency")
"""Columns of which a row has one."""
ALMOST = 0.75
"""Share of letters in common (difflib) beyond which a name is taken for a slip: one wrong letter in more than four."""


@dataclass(frozen=True)
class Column:
    """A column of a table of scenarios: where its value goes, and what it means."""

    path: str
    meaning: str
    read: Callable[[str, Any], Any]
    required: bool = False


def whole(name: str, value: Any) -> int:
    """Spreadsheets hand over 8.0 for 8."""
    number = real(name, value)
    if number != int(number):
        raise InputError(name, value, "a whole number")
    return int(number)


def real(name: str, value: Any) -> float:
    """A finite number; text that holds one is read (cells formatted as text)."""
    try:
        number = float(value) if not isinstance(value, bool) else math.nan
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number):
        raise InputError(name, value, "a number")
    return number


def text(name: str, value: Any) -> str:
    """Text; a version such as 0.33 that the sheet made a number is written out."""
    return f"{value:g}" if isinstance(value, float) else str(value).strip()


def modes(name: str, value: Any) -> list[str]:
    """``agg``, ``disagg`` or both, separated by commas."""
    return [part.strip() for part in text(name, value).split(",") if part.strip()]


COLUMNS: dict[str, Column] = {
    "name": Column("name", "What to call the row.", text),
    "model": Column("model", "Model of the catalogue.", text, required=True),
    "node": Column("hardware.candidates.0.node", "Node type of the catalogue.", text, required=True),
    "max_nodes": Column("hardware.candidates.0.max_nodes", "Most nodes of the deployment.", whole),
    "max_gpus_per_worker": Column("hardware.max_gpus_per_worker", "Largest worker in GPUs.", whole),
    "engine": Column("engine.name", "vllm, sglang or trtllm; empty means vllm.", text),
    "engine_version": Column("engine.version", "Engine version.", text),
    "precision": Column("precision.default", "Format of the weights; empty means the checkpoint's.", text),
    "kv": Column("precision.kv", "Format of the KV cache.", text),
    "input_tokens": Column("workload.input_tokens", "Prompt length in tokens.", whole, required=True),
    "output_tokens": Column("workload.output_tokens", "Output length in tokens.", whole, required=True),
    "prefix_hit_rate": Column("workload.prefix_hit_rate", "Cached part of the prompt, 0 to 1.", real),
    "rate_rps": Column("workload.arrival.rate_rps", "Requests per second (this or concurrency).", real),
    "concurrency": Column("workload.arrival.concurrency", "Requests kept in flight (this or rate_rps).", whole),
    "ttft_limit_ms": Column("slo.ttft_ms.mean", "Limit on the mean time to first token in ms.", real),
    "tpot_limit_ms": Column("slo.tpot_ms.mean", "Limit on the mean time per output token in ms.", real),
    "ttft_p95_limit_ms": Column("slo.ttft_ms.p95", "Limit on the 95th percentile of it in ms.", real),
    "tpot_p95_limit_ms": Column("slo.tpot_ms.p95", "Limit on the 95th percentile of it in ms.", real),
    "objective": Column("objective", "What ranks candidates; empty means lowest_cost.", text),
    "serving": Column("search.serving", "agg, disagg, or both with a comma; empty means agg.", modes),
    "usd_per_gpu_hour": Column("economics.usd_per_gpu_hour", "Your price of a GPU-hour in USD.", real),
    "spare_nodes": Column("reliability.spare_nodes", "Nodes kept spare.", whole),
}
"""Columns by name; any dotted key of a scenario (such as ``engine.options.max_num_seqs``) is a column too."""


def check_columns(names: list[str]) -> None:
    """Raises InputError for a column that is neither in COLUMNS, nor a dotted scenario key, nor a result column."""
    for name in names:
        if not _known(name):
            raise UnknownNameError("column", name, COLUMNS)
    _check_required(names)


def check_once(columns: Iterable[tuple[str, str]]) -> None:
    """Raises InputError where two of the ``columns``, (place, name) each, hold the same key of a scenario or the same
    answer: one of them would be left out without anybody noticing. Columns of a buyer's own may repeat.
    """
    seen: dict[str, str] = {}
    for place, name in columns:
        if not _known(name):
            continue
        key, here = COLUMNS[name].path if name in COLUMNS else name, f"{name} in {place}"
        if key in seen:
            raise InputError("columns", f"{seen[key]}, {here}", "one column for one thing")
        seen[key] = here


def foreign_columns(names: list[str]) -> list[str]:
    """The columns that are none of a scenario nor of its answer, such as a buyer's own notes.

    Raises InputError for a required column that is missing, and for a name that is almost one of COLUMNS, whose values
    would be left out without anybody noticing.
    """
    foreign = [name for name in names if not _known(name)]
    for name in foreign:
        meant = [*COLUMNS, *SECTIONS] if "." in name else COLUMNS
        if any(_almost(name.split(".", 1)[0], known) for known in meant):
            raise UnknownNameError("column", name, COLUMNS)
    _check_required(names)
    return foreign


def _known(name: str) -> bool:
    return name in COLUMNS or name in RESULT_COLUMNS or (name.split(".", 1)[0] in SECTIONS and "." in name)


def _check_required(names: list[str]) -> None:
    missing = [n for n, c in COLUMNS.items() if c.required and n not in names and c.path not in names]
    if missing:
        raise InputError("columns", ", ".join(names), f"also needed: {', '.join(missing)}")


def _almost(name: str, known: str) -> bool:
    """Spelt nearly so, or its words with some left out: ``Rate RPS``, ``rate`` and ``tpot_ms``, but not ``note``."""
    words = re.findall(r"[^\W_]+", name.lower())
    others = known.split("_")
    shorter = bool(words) and words[0] == others[0] and set(words) <= set(others)
    return shorter or difflib.SequenceMatcher(None, "_".join(words), known).ratio() > ALMOST


def question(row: Mapping[str, Any]) -> dict[str, Any]:
    """The scenario of a row as plain data; empty cells and result columns are left out.

    Raises InputError naming the column where a cell cannot be read or a required one is empty.
    """
    given = {k: v for k, v in row.items() if not _empty(v) and k not in RESULT_COLUMNS}
    for name, column in COLUMNS.items():
        if column.required and name not in given and column.path not in given:
            raise InputError(name, None, f"needed: {column.meaning}")
    if not any(name in given for name in LOADS) and not any(name.startswith("workload.arrival") for name in given):
        raise InputError("rate_rps", None, "needed: requests per second, or concurrency in its place")
    if "rate_rps" in given and "concurrency" in given:
        raise InputError("rate_rps", given["rate_rps"], "rate_rps or concurrency, not both")
    data: dict[str, Any] = {
        "schema": "planner.scenario/1",
        "name": "row",
        "engine": {"name": "vllm"},
        "slo": {},
        "workload": {},
    }
    for name, value in given.items():
        known = COLUMNS.get(name)
        place(data, known.path if known else name, known.read(name, value) if known else _plain(value), name)
    _finish(data, given)
    return data


def by_column(error: InputError, names: Iterable[str]) -> InputError:
    """``error`` of a row's scenario with the row's columns in place of the scenario's keys; ``names`` are those given:
    a key that is a column itself keeps its name.
    """
    own = set(names)
    paths = {c.path: name for name, c in COLUMNS.items() if c.path not in own}
    # The longest first: hardware.candidates.0.node, not what begins like it.
    known = "|".join(re.escape(p) for p in sorted(paths, key=len, reverse=True))
    inside = r"(?:\.[\w-]+)*"

    def named(text: str) -> str:
        return re.sub(rf"(?<![\w.])({known}){inside}(?![\w.])", lambda m: paths[m[1]], text)

    return InputError(named(error.field.removeprefix("scenario: ")), error.given, named(error.allowed))


def _finish(data: dict[str, Any], given: Mapping[str, Any]) -> None:
    """Turns the short columns into the scenario's own shapes."""
    workload = data["workload"]
    for key in ("input_tokens", "output_tokens"):
        if isinstance(workload.get(key), int):
            workload[key] = {"kind": "fixed", "tokens": workload[key]}
    arrival = workload.setdefault("arrival", {})
    if isinstance(arrival, dict):
        arrival.setdefault("kind", "closed_loop" if "concurrency" in arrival else "poisson")
    price = data.get("economics", {}).get("usd_per_gpu_hour")
    if isinstance(price, float):
        data["economics"]["usd_per_gpu_hour"] = {text("node", given["node"]): price}


def place(data: dict[str, Any], path: str, value: Any, column: str) -> None:
    """Sets a dotted key; a whole number in the path is a place in a list.

    Raises InputError where the path runs through something that is neither mapping nor list.
    """
    here: Any = data
    keys = path.split(".")
    for key, following in zip(keys, [*keys[1:], None], strict=True):
        if isinstance(here, list):
            if not key.isdigit() or int(key) > len(here):
                raise InputError(column, key, f"a place from 0 to {len(here)} in the list")
            if int(key) == len(here):
                here.append([] if following is not None and following.isdigit() else {})
            index: Any = int(key)
        elif isinstance(here, dict):
            index = key
            if following is not None and not isinstance(here.get(key), dict | list):
                here[key] = [] if following.isdigit() else {}
        else:
            raise InputError(column, path, "a key of the scenario")
        if following is None:
            here[index] = value
        here = here[index]


def _plain(value: Any) -> Any:
    """A dotted cell as YAML would hold it: whole floats are integers, true and false are booleans."""
    if isinstance(value, float) and value == int(value):
        return int(value)
    if isinstance(value, str) and value.strip().lower() in ("true", "false"):
        return value.strip().lower() == "true"
    return value.item() if hasattr(value, "item") else value


def _empty(value: Any) -> bool:
    """Nothing in the cell: None, NaN (pandas) or blank text."""
    return (
        value is None or (isinstance(value, float) and math.isnan(value)) or str(value).strip() in ("", "<NA>", "NaT")
    )
