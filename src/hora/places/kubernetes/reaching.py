"""The way to a run's lead: its pod, a port-forward into it, TLS with the client's part of the run's identity."""

from __future__ import annotations

import base64
import json
import threading
import time

from hora.errors import LeadGone, PlaceError
from hora.places.connection import Connection
from hora.places.kubernetes import words
from hora.places.kubernetes.api import ApiError, path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from hora.places.kubernetes.api import Api

    Object = dict[str, Any]

LOOK_AGAIN = 0.03  # seconds: nothing tells when a container begins before a port-forward finds it there
HANDSHAKE = 5.0
AT_ONCE = 0.0  # seconds to wait for a pod's refusal before the first word: TLS learns of it, too
FORBIDDEN = 403


def lead_pods(api: Api, namespace: str, run: str) -> list[Object]:
    """The lead's pods, the newest last: a lost one is made again."""
    query = {"labelSelector": words.selector(run, words.LEAD)}
    pods: list[Object] = api.request("GET", path("v1", "pods", namespace), query=query)["items"]
    return sorted(pods, key=lambda pod: pod["metadata"]["creationTimestamp"])


def may_run(pod: Object) -> bool:
    """It has a node, and isn't known to have ended or to be going."""
    alive = pod.get("status", {}).get("phase") in ("Pending", "Running")
    return bool(pod["spec"].get("nodeName")) and alive and "deletionTimestamp" not in pod["metadata"]


def client_identity(api: Api, namespace: str, name: str) -> dict[str, str]:
    """The client's part of a run's identity, from the run's Secret."""
    secret = api.request("GET", path("v1", "secrets", namespace, name))
    identity: dict[str, str] = json.loads(base64.b64decode(secret["data"][f"{words.CLIENT}.json"]))
    return identity


def connect(api: Api, namespace: str, pod: str, identity: Mapping[str, str]) -> Connection:
    """A connection to the lead in this pod; LeadGone when it isn't there yet, or no more."""
    from hora.places.kubernetes.api.forward import open_forward

    try:
        plain = open_forward(api, namespace, pod, words.PORT, HANDSHAKE, AT_ONCE)
    except ApiError as problem:
        if problem.status == FORBIDDEN:
            raise NoForward(
                f"you may not forward ports in the namespace {namespace}, so the lead can't be asked: "
                "`hora rbac` prints the Role that allows it"
            ) from problem
        raise LeadGone(f"the lead's pod can't be reached: {problem}") from problem
    return Connection.over(plain, identity, HANDSHAKE)


class NoForward(PlaceError):
    """The user has no right to pods/portforward: what needs the lead can't be had."""


def first_address(
    api: Api, namespace: str, run: str, identity: Mapping[str, str], limit: float
) -> tuple[Connection, str] | None:
    """The new lead's address, from itself, and the connection that told it; None when it takes too long.

    The address is in the API only once the kubelet has looked, up to a second later than here.
    """
    until = time.monotonic() + limit
    pod = _with_a_node(api, namespace, run, until)
    while pod is not None and time.monotonic() < until:
        try:
            connection = connect(api, namespace, pod, identity)
            told = connection.answer("where", timeout=max(0.1, until - time.monotonic()))[0]["address"]
            return connection, str(told[0])
        except LeadGone:
            time.sleep(LOOK_AGAIN)
        except NoForward:
            return None
    return None


def _with_a_node(api: Api, namespace: str, run: str, until: float) -> str | None:
    """Name of the lead's pod once it has a node."""
    where, query = path("v1", "pods", namespace), {"labelSelector": words.selector(run, words.LEAD)}
    listed = api.request("GET", where, query=query)
    pod = next((pod for pod in listed["items"] if may_run(pod)), None)
    if pod is not None:
        return str(pod["metadata"]["name"])
    with api.watch(where, query, listed["metadata"]["resourceVersion"]) as events:
        limit = threading.Timer(max(0.0, until - time.monotonic()), events.close)
        limit.daemon = True
        limit.start()
        try:
            return next((str(pod["metadata"]["name"]) for _kind, pod in events if may_run(pod)), None)
        finally:
            limit.cancel()
