"""Objects that the tests create, as small as they can be."""

from __future__ import annotations

from typing import Any

Manifest = dict[str, Any]


def pod(name: str, image: str, *command: str, node: str = "", **spec: Any) -> Manifest:
    """One that ends by itself; `node` asks the scheduler for that one."""
    labels = {"app": name}
    placed = {"nodeSelector": {"kubernetes.io/hostname": node}} if node else {}
    return {
        "kind": "Pod",
        "metadata": {"name": name, "labels": labels},
        "spec": {**_pod_spec(image, command), **placed, **spec},
    }


def indexed_job(name: str, pods: int, image: str, *command: str, **spec: Any) -> Manifest:
    template = {"metadata": {"labels": {"app": name}}, "spec": {**_pod_spec(image, command), **spec}}
    return {
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {
            "completionMode": "Indexed",
            "completions": pods,
            "parallelism": pods,
            "backoffLimit": 0,
            "template": template,
        },
    }


def headless_service(name: str) -> Manifest:
    """Of the pods of the same name; each has a name of its own, at once."""
    spec = {"clusterIP": "None", "selector": {"app": name}, "publishNotReadyAddresses": True}
    return {"kind": "Service", "metadata": {"name": name}, "spec": spec}


def service(name: str, port: int) -> Manifest:
    return {
        "kind": "Service",
        "metadata": {"name": name},
        "spec": {"selector": {"app": name}, "ports": [{"port": port}]},
    }


def _pod_spec(image: str, command: tuple[str, ...]) -> Manifest:
    container = {
        "name": "main",
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        **({"command": list(command)} if command else {}),
    }
    return {"restartPolicy": "Never", "terminationGracePeriodSeconds": 1, "containers": [container]}
