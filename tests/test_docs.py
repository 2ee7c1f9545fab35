"""Documentation: generated pages are up to date, links lead somewhere, and no file names what is not its business."""

from __future__ import annotations

import importlib.util
import re
import subprocess
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
LINK = re.compile(r"\]\(([^)\s]+)\)")
TEST = re.compile(r"`(tests/[\w/]+\.py)((?:::\w+)*)`")
TEXT = {".py", ".md", ".yaml", ".yml", ".toml", ".txt", ".json", ".csv", ".html", ".css", ".po", ""}
FORBIDDEN = re.compile(
    "|".join(("/wo" + "rk/", "/opt/py" + "pi", "tool lib" + "rary", r"py" + r"pi\.org", r"registry\.np" + "m"))
)


@cache
def _build() -> ModuleType:
    spec = importlib.util.spec_from_file_location("docs_build", ROOT / "docs" / "build.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@cache
def _generated() -> dict[Path, str]:
    return dict(_build().generated())


def test_generated_pages_and_shown_outputs_are_up_to_date() -> None:
    stale = [str(p.relative_to(ROOT)) for p in _build().stale(_generated())]
    assert not stale, "run `make docs` and commit what it writes"


def test_no_generated_page_is_left_behind() -> None:
    from planner.export.reference import MARK

    marked = {p for p in PAGES if p.read_text(encoding="utf-8").startswith(MARK)}
    assert marked <= set(_generated())


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    text = re.sub(r"(`+).*?\1", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    for target in LINK.findall(text):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        file = (page.parent / name).resolve() if name else page
        assert file.exists(), f"{page.name}: {target}"
        if anchor and file.suffix == ".md":
            assert anchor in _anchors(file), f"{page.name}: {target}"


@cache
def _anchors(file: Path) -> frozenset[str]:
    titles = re.findall(r"^#+ (.+)$", file.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return frozenset(re.sub(r"[^\w\- ]", "", t.lower()).replace(" ", "-") for t in titles)


def test_published_values_name_tests_that_exist() -> None:
    text = (ROOT / "docs" / "reference" / "published-values.md").read_text(encoding="utf-8")
    named = TEST.findall(text)
    assert len(named) >= 8
    for path, inner in named:
        source = (ROOT / path).read_text(encoding="utf-8")
        for name in filter(None, inner.split("::")):
            assert re.search(rf"(def|class) {name}\b", source), f"{path}{inner}"


def test_the_readme_opens_with_the_two_commands() -> None:
    first = re.search(r"```console\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    assert first is not None
    assert [line.split("#")[0].strip() for line in first.group(1).splitlines()] == ["$ make run", "$ make test"]


def test_files_do_not_name_machines_or_package_hosts() -> None:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("not a git checkout")
    wrong = []
    for name in listed.stdout.splitlines():
        path = ROOT / name
        if path.suffix in TEXT and path.is_file() and path.stat().st_size < 2_000_000:
            text = path.read_text(encoding="utf-8", errors="replace")
            wrong += [f"{name}: {m.group(0)}" for m in FORBIDDEN.finditer(text)]
    assert not wrong
