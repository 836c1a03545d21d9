#!/usr/bin/env python3
"""Fuzzes the writer of comments, script/ci/comment: reports of a gate with values, names and forms that somebody else chose.
A report is refused, or its comment has no mention, reference, link, HTML or picture that GitHub would see, and every row of a
table has its cells. Usage: fuzz/comment.py [--runs N] [--seed N]; prints the number of runs and of comments.
"""

import argparse
import copy
import importlib.machinery
import importlib.util
import json
import pathlib
import pickle
import random
import re
import sys
import time

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parent.parent
PIECES = [
    "@everyone", "@team/x", "https://evil.example", "www.evil.example", "#1", "GH-1", "|", "\\|", "\\", "`", "``", "```", "\n", "\r",
    "\n\n# heading", "\n---\n", "<img src=x>", "<!--", "-->", "</details>", "![](x)", "[a](b)", "&#8238;", "\u202e", "\u2066",
    "\u061c", "\u200b", "\u2028", "\ufeff", "\U000e0041", "\ud800", "\x1b[2J", "\x9b", "\x00", "**", "~~", "$x$", "a", "測", " ", "0",
    "x" * 400,
]
ODD = [None, True, False, 0, -1, 1e308, -0.0, 10**400, 0.1, "", [], {}, float("nan"), float("inf"), [[]], {"name": 1}]


def comment_of(path):
    loader = importlib.machinery.SourceFileLoader("comment", str(path))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("comment", loader))
    loader.exec_module(module)
    return module


def sound():
    """A report with every part that the comment shows."""
    figure = {"metric": "instructions", "baseline": 1e6, "value": 1005000.0, "change": 5000.0, "change_ratio": 0.005,
              "outcome": "exceeded", "reason": "more than 0.10 %"}
    functions = {"rows": [{"symbol": "parse_line", "own": {"change": 4000.0}}]}
    return {
        "schema": 1, "verdict": "exceeded", "headline": "The change must not land", "to_do": ["Make it cheaper"],
        "base": {"commit": "a" * 40}, "tip": {"commit": "b" * 40},
        "branch": {"left": "e" * 40, "head": {"commit": "f" * 40}, "commits": 3},
        "suite_changes": [{"setting": "limit", "case": "count", "from": "0.10 %", "to": "900 %", "kept": False}],
        "cases": [{"name": "parse", "failure": None, "functions": functions, "figures": [figure, dict(figure)]},
                  {"name": "fresh", "failure": "no baseline", "functions": None, "figures": []}],
    }


def places(value, found):
    """Every (container, key) of a value."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        found.append((value, key))
        places(inner, found)
    return found


def mutated(draw, packed):
    report = pickle.loads(packed)
    for _ in range(draw.randrange(1, 6)):
        found = places(report, [])
        if not found:
            break
        container, key = draw.choice(found)
        kind = draw.randrange(20)
        if isinstance(container[key], str) and kind:
            container[key] = "".join(draw.choices(PIECES, k=draw.randrange(1, 6)))
        elif kind == 1:
            container[key] = copy.deepcopy(draw.choice(ODD))
        elif kind == 2 and isinstance(container, dict):
            container.pop(key)
        elif kind == 3 and isinstance(container, list):
            container.extend(copy.deepcopy(container) * draw.randrange(1, 4))
        elif kind == 4:
            container[key] = copy.deepcopy(draw.choice(found)[0])
    return report


def check(module, text):
    """Raises AssertionError if GitHub would see more than the writer's own markup."""
    assert text.startswith(module.MARKER), "no marker"
    own = re.sub("<details><summary>(Functions|Reproduction)</summary>", "", text[len(module.MARKER):]).replace("</details>", "")
    assert all(line.count("`") % 2 == 0 for line in own.split("\n")), "code goes beyond its line"
    shown = re.sub("`[^`\n]*`", "CODE", own)
    for live in ("@", "://", "www.", "#", "<", "![", "](", "&", "\\", "\u202e", "\x1b", "~~", "$"):
        assert live not in shown, f"{live!r} is live"
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]", text), "hidden"
    marks = None
    for line in shown.split("\n"):
        count = line.count("|")
        assert marks in (None, count) or not line.startswith("|"), "a row has other cells"
        marks = count if line.startswith("|") else None
    assert len(text) < 65536, "longer than GitHub takes"


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--runs", type=int, default=100_000)
    arguments.add_argument("--seed", type=int, default=1)
    chosen = arguments.parse_args()
    module, draw, first = comment_of(ROOT / "script/ci/comment"), random.Random(chosen.seed), sound()
    check(module, module.comment(first)[0])
    packed = pickle.dumps(first)
    began, written = time.monotonic(), 0
    for number in range(chosen.runs):
        report = mutated(draw, packed)
        try:
            text, _ = module.comment(report)
        except (module.Form, ValueError, RecursionError, OverflowError):
            continue
        written += 1
        try:
            check(module, text)
        except AssertionError as error:
            print(f"run {number}: {error}\n{json.dumps(report)}\n{text!r}", file=sys.stderr)
            return 1
    print(f"{chosen.runs} runs, {written} comments, {time.monotonic() - began:.0f} s, nothing found")
    return 0


if __name__ == "__main__":
    sys.exit(main())
