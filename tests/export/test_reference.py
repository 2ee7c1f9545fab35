"""Reference pages hold every key and every documented formula, and leave pages written by hand alone."""

from __future__ import annotations

from pathlib import Path

from planner.export.reference import MARK, module_section, pages, write_pages


def test_every_key_of_the_scenario_is_there() -> None:
    text = pages()["scenario.md"]
    for key in ("schema", "max_gpus_per_worker", "expert_skew", "p95_tokens", "rate_rps", "usd_per_gpu_hour"):
        assert f"| `{key}` |" in text
    assert "| `prefix_hit_rate` | number (≥ 0.0, < 1.0) |" in text
    assert "[Engine](#engine) | required |" in text
    for line in text.splitlines():
        if line.startswith("| `"):
            assert not line.endswith("|  |"), line


def test_formulas_come_with_their_docstrings() -> None:
    text = pages()["formulas-serving.md"]
    assert "## planner.serving.closed_loop" in text
    assert "### aggregated" in text
    assert "Pollaczek-Khinchine" in text


def test_modules_without_formulas_have_no_section(tmp_path: Path) -> None:
    path = tmp_path / "planner" / "x.py"
    path.parent.mkdir()
    path.write_text('def f() -> int:\n    """One line."""\n    return 1\n')
    assert module_section(path) == ""


def test_pages_by_hand_stay(tmp_path: Path) -> None:
    (tmp_path / "serving.md").write_text("by hand")
    written = write_pages(tmp_path)
    assert (tmp_path / "serving.md").read_text() == "by hand"
    assert {"scenario.md", "plan.md", "formulas-memory.md"} <= {p.name for p in written}
    assert all(p.read_text().startswith(MARK) for p in written)
