"""Tests as a suite has them; conftest.py counts each."""

import pytest


@pytest.mark.parametrize("size", [100, 200])
def test_sorts(size):
    assert sorted(range(size, 0, -1))[0] == 1


def test_counts():
    words = "the quick brown fox jumps over the lazy dog the end".split()
    counts = {}
    for word in words:
        counts[word] = counts.get(word, 0) + 1
    assert counts["the"] == 3
