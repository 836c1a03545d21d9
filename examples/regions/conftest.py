"""Counts the call of each test function in a region of its own, without its fixtures.

Copy this file and opcost_region.py beside the tests, or add its hook to their conftest.py. A region has the
test's id, with '_' for blanks.
"""

import os
import sys

import pytest

sys.path.insert(0, os.path.dirname(__file__))

import opcost_region


@pytest.hookimpl(hookwrapper=True)
def pytest_pyfunc_call(pyfuncitem):
    name = "_".join(pyfuncitem.nodeid.split())
    opcost_region.begin(name)
    yield
    opcost_region.end(name)
