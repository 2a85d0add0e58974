"""These tests need a real Kubernetes: one that is made on this machine, or somebody's (`--kubeconfig=FILE`)."""

from __future__ import annotations

import os
import sys

from cluster.kube import machine

# The cluster is built once, in ten minutes, and takes two gigabytes.
ONLY_ASKED = "it builds a Kubernetes cluster: name it, tests/cluster"


def missing() -> str | None:
    somebodys = any(word.partition("=")[0] == "--kubeconfig" for word in sys.argv)
    return None if somebodys or os.environ.get("HORA_TEST_KUBECONFIG") else machine.missing()
