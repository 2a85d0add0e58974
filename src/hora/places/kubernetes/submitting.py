"""From rendered objects to a run: the owner first, what its pod mounts next, the members once they know where
the lead is."""

from __future__ import annotations

import threading
from collections import deque

from hora.errors import PlaceError
from hora.places.kubernetes import reaching, render, words
from hora.places.kubernetes.api import ApiError, path
from hora.places.kubernetes.kinds import PLURALS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import Any

    from hora.places.connection import Connection
    from hora.places.kubernetes.api import Api

    Object = dict[str, Any]

AT_ONCE = 3  # requests under way: more would only wait for one another in the API server
LEAD_LIMIT = 3.0  # seconds for the lead to say where it is; then its Service must do, and image pulls overlap


def create(api: Api, made: Object) -> Object:
    metadata = made["metadata"]
    where = path(made["apiVersion"], PLURALS[made["kind"]], metadata["namespace"])
    return api.request("POST", where, made)


class Submitting:
    def __init__(self, api: Api, namespace: str, run: str) -> None:
        self.api = api
        self.namespace = namespace
        self.run = run
        self.lead: Object = {}

    def go(
        self,
        objects: render.Objects,
        identity: Mapping[str, str],
        members: Callable[[tuple[str, ...]], Sequence[Object]],
    ) -> Connection | None:
        """`members` makes their Jobs for a lead at those addresses.  Returns the first connection to the lead.

        The Service has an address of its own, which needs no DNS; it works as soon as the nodes know the way.
        """
        self.lead = create(self.api, objects.lead)
        try:
            made = self._create_all(objects.parts)
            services = [each["spec"]["clusterIP"] for each in made if each["kind"] == "Service"]
            found = reaching.first_address(self.api, self.namespace, self.run, identity, LEAD_LIMIT)
            connection, first = found if found is not None else (None, None)
            try:
                leads = [first, *(address for address in services if address != "None")]
                self._create_all(members(tuple(address for address in leads if address)))
            except BaseException:
                if connection is not None:
                    connection.close()
                raise
        except BaseException:  # Ctrl-C, too: a run is whole or not there
            self.take_back()
            raise
        return connection

    def take_back(self) -> None:
        """Whatever was made goes with its owner."""
        try:
            delete(self.api, self.namespace, self.lead["metadata"]["name"])
        except PlaceError:
            pass  # what went wrong before is what counts, and is told

    def _create_all(self, objects: Iterable[Object]) -> list[Object]:
        """Several at once, as the server made them; the first problem is raised when all have ended."""
        found: list[Object] = []
        left = deque(render.owned(made, self.lead) for made in objects)
        problems: list[BaseException] = []

        def work() -> None:
            while left and not problems:
                try:
                    made = left.popleft()
                except IndexError:  # another took the last
                    return
                try:
                    found.append({**create(self.api, made), "kind": made["kind"]})
                except BaseException as problem:  # noqa: BLE001 - raised below, in the caller's thread
                    problems.append(problem)

        threads = [threading.Thread(target=work, daemon=True) for _ in range(min(AT_ONCE, len(left)) - 1)]
        for thread in threads:
            thread.start()
        work()
        for thread in threads:
            thread.join()
        if problems:
            raise problems[0]
        return found


def delete(api: Api, namespace: str, lead: str) -> None:
    """The lead's Job, and with it all that it owns."""
    options = {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background"}
    try:
        api.request("DELETE", path("batch/v1", "jobs", namespace, lead), options)
    except ApiError as problem:
        if problem.status != words.NOT_FOUND:
            raise
