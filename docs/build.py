"""Writes what can be written from the code: reference pages, accuracy tables, and the output of the README's examples.

``python docs/build.py`` (``make docs``) writes; with ``--check`` it only lists what would change, and exits 1.
Pages written by hand beside the generated ones are left alone.
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from planner.units import spaced

ROOT = Path(__file__).resolve().parents[1]
REFERENCE = ROOT / "docs" / "reference"
README = ROOT / "README.md"
EXAMPLE_PAGES = (README, ROOT / "docs" / "tutorial" / "first-plan.md")
"""Pages whose commands are run and whose shown output is what they print."""

OPERATORS_COMMAND = "planner calibrate ops measured"
MEMORY_COMMAND = "planner validate measured/memory_runs.csv --models measured/models"
CLASSES = {
    "gemm": "GEMM",
    "mla_bmm": "GEMM",
    "attention": "attention",
    "mla": "attention",
    "moe": "experts",
    "deepep": "DeepEP",
}


def generated() -> dict[Path, str]:
    """Every generated file and what it should hold."""
    from planner.export.reference import pages

    files = {REFERENCE / name: text for name, text in pages().items()}
    files[REFERENCE / "command-line.md"] = command_line()
    files[REFERENCE / "accuracy-operators.md"] = operator_table()
    files[REFERENCE / "accuracy-memory.md"] = memory_table()
    files[REFERENCE / "catalogue.md"] = catalogue()
    files[REFERENCE / "deepseek-day6.md"] = deepseek()
    files |= {page: with_outputs(page.read_text(encoding="utf-8")) for page in EXAMPLE_PAGES if page.exists()}
    return files


def _head(title: str, intro: str) -> str:
    from planner.export.reference import MARK

    return f"{MARK}\n# {title}\n\n{intro}\n"


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)]) + "\n"


def command_line() -> str:
    """Every command with its arguments and options, from the command line itself."""
    import typer

    from planner.cli.app import app

    intro = (
        "`planner` and `python -m planner` are the same. `--json` prints one JSON document on standard output; logs go "
        "to standard error. Exit codes: 0 done; 1 output that could not be written, as on a full disk; 2 bad input, "
        "saying which field and what is allowed; 3 nothing feasible, saying why. `--out` writes a file whole or not at "
        "all, behind a symbolic link where it is one, and into a device or a pipe such as /dev/stdout. "
        "`PLANNER_CATALOG_DIR` names a folder of YAML that overlays the catalogue everywhere."
    )
    parts = [_head("The command line", intro)]
    for name, command in _commands(typer.main.get_command(app), "planner"):
        parts.append(f"## {name}\n\n{' '.join((command.help or '').split())}\n")
        rows = []
        for parameter in command.params:
            names = ", ".join(f"`{o}`" for o in (*parameter.opts, *parameter.secondary_opts) if o != "--help")
            if not names:
                continue
            if parameter.param_type_name == "argument":
                names = f"`{parameter.name.upper()}`"
            text = " ".join((getattr(parameter, "help", None) or "").split())
            need = "required" if parameter.required else _default(parameter.default)
            rows.append((names, need, text.replace("|", "\\|")))
        if rows:
            parts.append(_table(("argument or option", "default", "meaning"), rows))
    return "\n".join(parts)


def _default(value: Any) -> str:
    return "" if value in (None, False, (), []) or callable(value) else f"`{value}`"


def _commands(command: Any, name: str) -> Iterator[tuple[str, Any]]:
    children = getattr(command, "commands", None)
    if children is None or any(p.name not in ("help", "install_completion", "show_completion") for p in command.params):
        yield name, command
    for key, child in (children or {}).items():
        yield from _commands(child, f"{name} {key}")


def operator_table() -> str:
    """Residuals of the committed operator curves by class, accelerator and data type."""
    folder = ROOT / "hardware_db" / "efficiency" / "ops"
    groups: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
    totals: dict[str, list[dict[str, Any]]] = {}
    for path in sorted(folder.glob("[!_]*.yaml")):
        document = yaml.load(path.read_text(encoding="utf-8"), Loader=yaml.CSafeLoader)
        for curve in document["curves"]:
            groups.setdefault((curve["op"], document["accelerator"], curve["dtype"]), []).append(curve)
            totals.setdefault(_class(curve), []).append(curve)
    columns = ("", "curves", "rows fitted", "median error", "90th percentile", "bias")
    intro = (
        f"Relative errors of the fitted operator curves against the rows they were fitted on; `{OPERATORS_COMMAND}` "
        "fits them again and prints the same figures. A group's error is the median over its curves (engines)."
    )
    parts = [_head("Accuracy of operator times", intro), "## By class\n"]
    parts.append(_table(columns, ((name, *_residuals(curves)) for name, curves in sorted(totals.items()))))
    parts.append("## By operator, accelerator and data type\n")
    wide = ("operator", "accelerator", "data type", *columns[1:])
    parts.append(_table(wide, ((*(f"`{k}`" for k in key), *_residuals(c)) for key, c in sorted(groups.items()))))
    return "\n".join(parts)


def _class(curve: dict[str, Any]) -> str:
    name = next((text for key, text in CLASSES.items() if key in curve["op"]), "collectives")
    if name != "GEMM":
        return name
    return "GEMM, 16 bits" if curve["dtype"] == "bf16" else "GEMM, 8 and 4 bits"


def _residuals(curves: Sequence[dict[str, Any]]) -> tuple[str, ...]:
    def middle(key: str) -> str:
        return spaced(f"{float(np.median([c['residuals'][key] for c in curves])):.1%}")

    points = sum(int(c["points"]) for c in curves)
    return str(len(curves)), f"{points:,}", middle("median_ape"), middle("p90_ape"), middle("bias")


def memory_table() -> str:
    """Predicted against measured start-up memory, from the same command that a reader can run."""
    report = _json(MEMORY_COMMAND)
    failed = ", ".join(f"{count} × {reason}" for reason, count in report["failed"].items())
    intro = (
        f"`{MEMORY_COMMAND}` predicts {report['predicted']} of {report['rows']} measured engine starts"
        f"{f' (not predicted: {failed})' if failed else ''} and prints these errors. Runs come from vLLM; the terms "
        "of SGLang and TensorRT-LLM follow from their sources and published start-up logs (see the engine files)."
    )
    columns = ("metric", "rows", "median error", "mean error", "90th percentile", "bias")
    parts = [_head("Accuracy of memory", intro), _table(columns, _errors(report["metrics"]))]
    for name in ("engine_version", "kind", "layout"):
        rows = [
            (str(group["value"]), *row)
            for group in report["groups"]
            if group["group"] == name
            for row in _errors(group["metrics"])
            if row[0] in ("`weights_gib`", "`available_kv_gib`")
        ]
        if rows:
            parts.append(f"## By {name.replace('_', ' ')}\n\n{_table((name.replace('_', ' '), *columns), rows)}")
    return "\n".join(parts)


def _errors(metrics: dict[str, dict[str, float]]) -> Iterator[tuple[str, ...]]:
    for name, m in metrics.items():
        rows = int(m.get("points", m.get("rows", 0)))
        if rows:
            figures = (spaced(f"{m[key]:.1%}") for key in ("median_ape", "mean_ape", "p90_ape", "bias"))
            yield f"`{name}`", str(rows), *figures


def deepseek() -> str:
    """DeepSeek's published layouts, from the same command that a reader can run."""
    script = ROOT / "benchmarks" / "deepseek_day6.py"
    text = ast.get_docstring(ast.parse(script.read_text(encoding="utf-8"))) or ""
    intro = text.replace("``", "`") + "\n"
    return _head("DeepSeek's published service", intro) + "\n" + _output([sys.executable, str(script)])


def catalogue() -> str:
    """What is in the catalogue, as ``planner catalog`` lists it."""
    listed = _json("planner catalog")
    intro = "What `planner catalog` lists; `planner catalog nodes dgx-h100` shows one entry with source and date."
    parts = [_head("The catalogue", intro)]
    for kind in ("models", "accelerators", "nodes"):
        rows = listed[kind]
        columns = list(rows[0])
        cells = ([_plain(row[c]) for c in columns] for row in rows)
        parts.append(f"## {len(rows)} {kind}\n\n{_table([c.replace('_', ' ') for c in columns], cells)}")
    return "\n".join(parts)


def _plain(value: Any) -> str:
    if value is None:
        return "–"
    return f"{value:,.4g}" if isinstance(value, float) else str(value)


def _json(command: str) -> dict[str, Any]:
    from planner.cli import run

    out = io.StringIO()
    with contextlib.chdir(ROOT), contextlib.redirect_stdout(out):
        run([*shlex.split(command)[1:], "--json"])
    return dict(json.loads(out.getvalue()))


FENCE = re.compile(r"^```(console|python)\n(.*?)^```\n(?:\n```text\n.*?^```\n)?", re.MULTILINE | re.DOTALL)


def with_outputs(text: str) -> str:
    """``text`` with the output of its examples as they run now.

    A ``console`` block that starts with ``$ planner …`` is followed by what the command prints; a ``python`` block that
    has a ``text`` block behind it, by what it prints. ``| head -n N`` keeps the first lines.
    """

    def run(match: re.Match[str]) -> str:
        kind, body = match.group(1), match.group(2)
        if kind == "console":
            first = body.splitlines()[0]
            return f"```console\n{first}\n{_printed(first)}```\n" if first.startswith("$ planner ") else match.group(0)
        if "```text" not in match.group(0):
            return match.group(0)
        ast.parse(body)
        return f"```python\n{body}```\n\n```text\n{_output([sys.executable, '-c', body])}```\n"

    return FENCE.sub(run, text)


def _printed(line: str) -> str:
    command, _, rest = line.removeprefix("$ ").partition(" | head -n ")
    lines = _output([sys.executable, "-m", *shlex.split(command)]).splitlines()
    kept = [entry.rstrip() for entry in (lines[: int(rest)] if rest else lines)]
    return "".join(f"{entry}\n" for entry in kept)


def _output(command: list[str]) -> str:
    env = {k: v for k, v in os.environ.items() if not k.startswith("PLANNER_")}
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 3):
        raise SystemExit(f"{' '.join(command)}\n{done.stderr}")
    return done.stdout


def stale(files: dict[Path, str]) -> list[Path]:
    """Which of the generated ``files`` are missing or differ on disk."""
    return [p for p, text in files.items() if not p.exists() or p.read_text(encoding="utf-8") != text]


def main() -> int:
    if "--check" in sys.argv[1:]:
        found = stale(generated())
        for path in found:
            print(f"out of date: {path.relative_to(ROOT)} (make docs)")
        return 1 if found else 0
    for path, text in generated().items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
