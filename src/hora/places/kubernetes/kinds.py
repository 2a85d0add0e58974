"""The kinds of objects that a run is made of."""

from __future__ import annotations

PLURALS = {
    "Job": "jobs",
    "Service": "services",
    "ConfigMap": "configmaps",
    "Secret": "secrets",
    "NetworkPolicy": "networkpolicies",
}
VERSIONS = {
    "Job": "batch/v1",
    "Service": "v1",
    "ConfigMap": "v1",
    "Secret": "v1",
    "NetworkPolicy": "networking.k8s.io/v1",
}
