"""Fixtures of every suite that needs a Kubernetes; its conftest.py imports them.

cluster        one for the whole session: the one that is up, or one that is started (and ended); or somebody's
own_cluster    the same, when a test must switch its nodes off: skipped on somebody's
namespace      of the test alone, with no policy
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster.client import Cluster, Namespace
from cluster.kube import cluster as ours
from cluster.kube import layout

IMAGES = "localhost/hora"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--kubeconfig",
        default=os.environ.get("HORA_TEST_KUBECONFIG"),
        help="somebody's cluster, instead of one made on this machine: --kubeconfig=FILE.  It must have the "
        "test images: `scripts/cluster images --archive` prints the file to load",
    )
    parser.addoption(
        "--images", default=IMAGES, help=f"where that cluster finds them; absent: {IMAGES}, as the file says"
    )


@pytest.fixture(scope="session")
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    somebodys = request.config.getoption("--kubeconfig", default=None)
    images = request.config.getoption("--images", default=IMAGES)
    if somebodys:
        yield from _opened(Cluster(Path(somebodys).absolute(), own=False, images=images))
        return
    with ours.lent():
        yield from _opened(Cluster(layout.KUBECONFIG, own=True, images=images))


def _opened(cluster: Cluster) -> Iterator[Cluster]:
    assert cluster.nodes  # it answers; and its proxy has no test's environment
    yield cluster
    cluster.close()


@pytest.fixture
def own_cluster(cluster: Cluster) -> Cluster:
    if not cluster.own:
        pytest.skip("nodes of somebody's cluster are not for us to switch off")
    return cluster


@pytest.fixture
def namespace(cluster: Cluster) -> Iterator[Namespace]:
    made = cluster.new_namespace()
    yield made
    made.remove()


@pytest.fixture
def team(namespace: Namespace, monkeypatch: pytest.MonkeyPatch) -> Namespace:
    """A namespace in which KUBECONFIG speaks for somebody with the rights that `hora rbac` prints, and no more."""
    give_rights(namespace, monkeypatch)
    return namespace


def give_rights(namespace: Namespace, monkeypatch: pytest.MonkeyPatch, *without: str) -> None:
    """`without`: what `hora rbac --without` leaves out."""
    from hora.places.kubernetes import rights

    user = namespace.user()
    namespace.create(rights.role("hora", namespace.name, without))
    binding = rights.binding("hora", namespace.name, "User", "nobody")
    namespace.create({**binding, "subjects": [user.subject]})
    monkeypatch.setenv("KUBECONFIG", str(user.kubeconfig))
