"""The kinds of objects that a run is made of."""

from __future__ import annotations

PLURALS = {
    "Job": "jobs",
    "Service": "services",
    "ConfigMap": "configmaps",
    "Secret": "secrets",
    "NetworkPolicy": "networkpolicies",
}
