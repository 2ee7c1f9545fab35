"""Closed forms against the replay: ``python benchmarks/agreement.py`` prints the table; ``--out FILE`` writes the page.

``--requests N`` replays fewer requests a case; ``--check`` exits with 1 where a target is missed.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path


def main() -> int:
    """Prints the page, or writes it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=None)
    parser.add_argument("--out", type=Path, default=None)
    parser.add_argument("--only", default="", help="cases whose name contains this text")
    parser.add_argument("--check", action="store_true")
    given = parser.parse_args()
    from planner.search import agreement

    skipped: list[str] = []
    requests = given.requests or agreement.REQUESTS
    grid = tuple(c for c in agreement.cases() if given.only in f"{c.name} {c.serving}")
    found = agreement.compare(grid, requests, said=skipped.append)
    page = agreement.markdown(found, requests, skipped)
    if given.out is None:
        print(page)
    else:
        given.out.write_text(page, encoding="utf-8")
    missed = [t for t, (good, n) in agreement.scores(found).items() if not n or good < agreement.WANTED_SHARE * n]
    if missed:
        print(f"missed: {', '.join(missed)}", file=sys.stderr)
    return 1 if given.check and missed else 0


if __name__ == "__main__":
    sys.exit(main())
