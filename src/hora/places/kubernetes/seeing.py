"""What the API tells of one run: its Jobs, pods and their events, looked at once or watched in the background."""

from __future__ import annotations

import threading
import time

from hora.errors import PlaceError
from hora.places.kubernetes import words
from hora.places.kubernetes.api import ApiError, Expired, path
from hora.places.kubernetes.why import Seen

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from hora.places.kubernetes.api import Api

    Object = dict[str, Any]

PAUSE = 1.0  # seconds before a watch that broke is begun again
FORBIDDEN = (401, 403)


def sources(namespace: str, run: str) -> dict[str, tuple[str, dict[str, str]]]:
    """What is listed and watched, by name: path and query."""
    ours = {"labelSelector": words.selector(run)}
    return {
        "jobs": (path("batch/v1", "jobs", namespace), ours),
        "pods": (path("v1", "pods", namespace), ours),
        "events": (path("v1", "events", namespace), {}),
        "claims": (path("v1", "persistentvolumeclaims", namespace), {}),
        "quotas": (path("v1", "resourcequotas", namespace), {}),
        "nodes": (path("v1", "nodes"), {}),
    }


WATCHED = ("jobs", "pods", "events", "claims", "quotas", "nodes")


def look(api: Api, namespace: str, run: str, base: str) -> Seen:
    """Everything once.  What may not be seen is left out."""
    found = {}
    for name, (where, query) in sources(namespace, run).items():
        try:
            found[name] = tuple(api.request("GET", where, query=query)["items"])
        except ApiError as problem:
            if problem.status not in (*FORBIDDEN, words.NOT_FOUND):
                raise
            found[name] = ()
    found["events"] = tuple(event for event in found["events"] if _of(event, base))
    return Seen(**found, now=time.time())


def _of(event: Object, base: str) -> bool:
    """Also of Kueue's Workloads, which are called job-<base>-…, and of claims, which anybody may name."""
    about = event.get("involvedObject", {})
    name: str = about.get("name", "").removeprefix("job-")
    return name == base or name.startswith(f"{base}-") or about.get("kind") == "PersistentVolumeClaim"


class Watch:
    """Keeps what is seen of a run current, in threads of its own; `close` ends them."""

    def __init__(self, api: Api, namespace: str, run: str, base: str, changed: Callable[[], None]) -> None:
        self.run = run
        self._api = api
        self._base = base
        self._changed = changed
        self._lock = threading.Lock()
        self._objects: dict[str, dict[str, Object]] = {name: {} for name in WATCHED}
        self._open: set[Any] = set()
        self._closed = False
        for name in WATCHED:
            where, query = sources(namespace, run)[name]
            threading.Thread(target=self._keep, args=(name, where, query), daemon=True).start()

    def seen(self) -> Seen:
        with self._lock:
            found = {name: tuple(objects.values()) for name, objects in self._objects.items()}
        return Seen(**found, now=time.time())

    def close(self) -> None:
        self._closed = True
        with self._lock:
            watches = list(self._open)
        for watch in watches:
            watch.close()

    def _keep(self, name: str, where: str, query: dict[str, str]) -> None:
        while not self._closed:
            try:
                self._follow(name, where, query)
            except Expired:
                continue
            except ApiError as problem:
                if problem.status in (*FORBIDDEN, words.NOT_FOUND):
                    return  # not ours to see
            except (PlaceError, OSError):
                pass  # it is told where somebody waits for an answer; here another try comes
            if not self._closed:
                time.sleep(PAUSE)

    def _follow(self, name: str, where: str, query: dict[str, str]) -> None:
        listed = self._api.request("GET", where, query=query)
        with self._lock:
            self._objects[name] = {
                item["metadata"]["uid"]: item for item in listed["items"] if self._wanted(name, item)
            }
        self._changed()
        version = listed["metadata"]["resourceVersion"]
        watch = self._api.watch(where, query, version)
        with self._lock:
            self._open.add(watch)
        try:
            for kind, item in watch:
                self._take(name, kind, item)
        finally:
            with self._lock:
                self._open.discard(watch)
            watch.close()

    def _wanted(self, name: str, item: Object) -> bool:
        return name != "events" or _of(item, self._base)

    def _take(self, name: str, kind: str, item: Object) -> None:
        if not self._wanted(name, item):
            return
        with self._lock:
            if kind == "DELETED":
                self._objects[name].pop(item["metadata"]["uid"], None)
            else:
                self._objects[name][item["metadata"]["uid"]] = item
        self._changed()
