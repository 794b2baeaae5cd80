"""Fixtures for tests on a Ray cluster; a plugin: `pytest_plugins = ["ray_fixtures"]`."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from importlib.util import find_spec

import pytest

from ray_cluster import RayCluster, added_node, join_cluster


@pytest.fixture(scope="session")
def ray_cluster(tmp_path_factory) -> RayCluster:
    """Two nodes with a core each, the same for all processes of pytest."""
    if find_spec("ray") is None:  # not imported here: its core reads the environment when it is
        pytest.skip("Ray is not installed")
    own = tmp_path_factory.getbasetemp()
    return join_cluster((own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / "ray-cluster")


@pytest.fixture(scope="module")
def two_nodes(ray_cluster) -> Iterator[RayCluster]:
    """The same for tests that count them: no other one adds a node meanwhile."""
    with ray_cluster.nodes_stay():
        yield ray_cluster


@pytest.fixture
def another_node(ray_cluster) -> Iterator[tuple[int, Callable[[], None]]]:
    """A third node, which no other test depends on: the process that keeps it, and how it is lost."""
    with added_node(ray_cluster) as node:
        yield node
