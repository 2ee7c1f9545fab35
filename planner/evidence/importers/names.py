"""Names as tools and people write them: accelerators and number formats in the catalogue's spelling."""

from __future__ import annotations

import re

from planner.errors import LISTED_BY, InputError, UnknownNameError

PRECISIONS = {
    "bf16": "bf16",
    "bfloat16": "bf16",
    "fp16": "bf16",
    "float16": "bf16",
    "fp8": "fp8",
    "fp8_e4m3": "fp8",
    "fp8-block128": "fp8-block128",
    "fp4": "nvfp4",
    "nvfp4": "nvfp4",
    "modelopt_fp4": "nvfp4",
    "mxfp4": "mxfp4",
    "int4": "int4",
    "awq": "int4",
    "gptq": "int4",
    "w4a16": "int4",
    "int8": "int8",
    "w8a8": "int8",
}
"""Words of reports -> precision of a run's table (hardware_db/efficiency/runs.yaml)."""

_SUFFIX = re.compile(r"[-_](nvfp4|mxfp4|fp8|fp4|int4|awq|gptq|w4a16|w8a8|int8)(?=$|[-_])", re.IGNORECASE)
_NOISE = frozenset({"nvidia", "amd", "geforce", "instinct", "gpu", "tesla", "edition", "blackwell", "ib", "oam"})


def gpu_id(name: str, ids: list[str], field: str = "gpu") -> str:
    """The accelerator that ``name`` means: its id; else the one id whose words all occur in the name; else the one
    SXM (or only) part of the chip that the name begins with.

    Raises InputError where several are meant, UnknownNameError where none is.
    """
    low = name.strip().lower()
    if low in ids:
        return low
    words = [w for w in re.split(r"[^a-z0-9.]+", low) if w and w not in _NOISE]
    sizes = {w.removesuffix("b") for w in words if re.fullmatch(r"\d+gb?", w)} | set(words)
    full = [i for i in ids if set(i.split("-")) <= sizes]
    if full:
        most = max(len(i.split("-")) for i in full)
        full = [i for i in full if len(i.split("-")) == most]
    else:
        full = [i for i in ids if words and i.split("-")[0] == words[0]]
        full = [i for i in full if set(i.split("-")[1:]) & sizes] or full
        full = [i for i in full if i.endswith(("-sxm", "-nvl72"))] or full
    if len(full) == 1:
        return full[0]
    if full:
        raise InputError(field, name, f"one of: {', '.join(full)}")
    raise UnknownNameError(field, name, ids, LISTED_BY["accelerator"])


def precision_word(given: str | None, model: str | None) -> str:
    """Precision in a run table's words: as given, else as the checkpoint's name ends, else ''.

    Raises UnknownNameError for a word that no format has.
    """
    if given:
        word = given.strip().lower()
        if word not in PRECISIONS:
            raise UnknownNameError("precision", given, PRECISIONS)
        return PRECISIONS[word]
    match = _SUFFIX.search((model or "").rsplit("/", 1)[-1])
    return PRECISIONS[match[1].lower()] if match else ""


def unknown_gpu(name: str, ids: list[str]) -> InputError:
    """The error for a name that is no id, with the accelerator that it seems to mean."""
    try:
        return InputError("gpu", name, f"did you mean {gpu_id(name, ids)}?")
    except InputError as error:
        return error
