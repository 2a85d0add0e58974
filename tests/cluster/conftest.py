from cluster.fixtures import cluster, namespace, own_cluster, pytest_addoption

__all__ = ["cluster", "namespace", "own_cluster", "pytest_addoption"]
