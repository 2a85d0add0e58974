"""One namespace of a Kubernetes cluster: plain objects, owned by the Job of the run's lead."""

from __future__ import annotations

import hashlib
import os
import time
import weakref
from functools import cached_property

from hora import names, plan, state
from hora.errors import LeadGone, PlaceError, RunNotFound, UsageError
from hora.places import code, secrets
from hora.places.base import Chunk
from hora.places.kubernetes import explaining, fit, fitting, kept, reaching, runs, seeing, words
from hora.places.kubernetes.api import Access, Api, load_access, path
from hora.record import Record, replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any

    from hora.identity import Identity
    from hora.places.base import Submission
    from hora.places.code import Packed
    from hora.places.connection import Connection
    from hora.places.kubernetes.pods import Setting
    from hora.places.kubernetes.render import Objects
    from hora.places.kubernetes.why import Seen
    from hora.spec import JobSpec

    Object = dict[str, Any]

SETTLE_LIMIT = 5.0  # seconds for the API to know that a lead has ended
LOOK_AGAIN = 0.1


class _Made(Record):
    setting: Setting
    objects: Objects
    identity: Identity | None


class KubernetesPlace:
    name = "kubernetes"
    options = ("context", "namespace")
    same_disk = False

    def __init__(self, context: str | None = None, namespace: str | None = None) -> None:
        self._context = context
        self._namespace = namespace
        self._first: dict[str, Connection] = {}  # made while submitting; for the first that attaches
        weakref.finalize(self, _close_all, self._first)
        self._identities: dict[str, dict[str, str]] = {}
        self._watch: seeing.Watch | None = None
        self._remarked: tuple[JobSpec, tuple[str, ...]] | None = None  # a client asks before it submits

    @cached_property
    def access(self) -> Access:
        return load_access(self._context, self._namespace)

    @cached_property
    def api(self) -> Api:
        return Api(self.access)

    @property
    def namespace(self) -> str:
        return self._namespace or self.access.namespace

    @property
    def whereabouts(self) -> dict[str, str]:
        context = self.access.context
        return {"namespace": self.namespace, **({"context": context} if context else {})}

    # --- submitting ---

    def remarks(self, spec: JobSpec) -> tuple[str, ...]:
        self._check(spec)
        if self._remarked is None or self._remarked[0] != spec:
            self._remarked = spec, fitting.remarks(self.api, self.namespace, spec)
        return self._remarked[1]

    def _check(self, spec: JobSpec) -> None:
        """What can be known without the cluster."""
        problems = fit.problems(spec)
        if problems:
            raise UsageError("\n".join(problems))
        self._namespace = self._namespace or spec.roles[0].kubernetes.namespace

    def render(self, submission: Submission, whole: bool = False) -> str:
        from hora.places.kubernetes import rendering

        self._check(submission.spec)
        made = self._made(submission, whole)
        return rendering.text(made.objects.all, submission.spec.name, made.setting.run, whole)

    def submit(self, submission: Submission) -> tuple[str, Connection | None]:
        from hora.places.kubernetes import render
        from hora.places.kubernetes.submitting import Submitting

        spec = submission.spec
        submission = replace(submission, notes=(*submission.notes, *self.remarks(spec)))
        made = self._made(submission, whole=True)
        run, setting = made.setting.run, made.setting
        assert made.identity is not None
        self._identities[run] = made.identity.part("client")

        def members(leads: tuple[str, ...]) -> tuple[Object, ...]:
            return render.members(spec, submission.plan, replace(setting, leads=leads))

        submitting = Submitting(self.api, setting.namespace, run)
        connection = submitting.go(made.objects, self._identities[run], members)
        if connection is not None:
            self._first[run] = connection
        return run, None

    def _made(self, submission: Submission, whole: bool) -> _Made:
        """Everything of a new run; `whole`: also what nobody else may see.  Without it the same job gives the
        same text."""
        from hora.places import bundle
        from hora.places.kubernetes import render
        from hora.places.kubernetes.pods import Setting

        agent = bundle.agent()
        packed = None if submission.spec.code is None else code.packed(submission.spec.code)
        if packed is not None and packed.notes:
            submission = replace(submission, notes=(*submission.notes, *packed.notes))
        seed = os.urandom(8) if whole else hashlib.sha256(plan.dumps(submission.plan).encode()).digest()
        run = names.run_id(seed)
        setting = Setting(run, self.namespace, hashlib.sha256(agent).hexdigest())
        if not whole:
            return _Made(setting, render.render(submission, setting, agent, None, code=packed), None)
        from datetime import datetime, timezone

        from hora.identity import make_identity

        identity = make_identity(run, datetime.now(timezone.utc))
        values = secrets.values(submission.spec)
        made = render.render(submission, setting, agent, time.time(), identity, values, packed)
        return _Made(setting, made, identity)

    def fresh_code(self, run: str, folder: str | None) -> Packed:
        return code.fresh(run, folder)

    # --- looking ---

    def _known(self) -> list[runs.Known]:
        query = {"labelSelector": words.ALL_RUNS}
        jobs = self.api.request("GET", path("batch/v1", "jobs", self.namespace), query=query)["items"]
        found = [known for job in jobs if (known := runs.known(job)) is not None]
        return sorted(found, key=lambda known: known.created_at)

    def _find(self, name: str) -> runs.Known:
        everything = self._known()
        for matching in (
            [known for known in everything if name in (known.run, known.base)],
            [known for known in everything if known.name == name],
        ):
            if matching:
                return matching[-1]
        begun = [known for known in everything if known.run.startswith(name)] if name else []
        if len(begun) == 1:
            return begun[0]
        if begun:
            raise UsageError(f"{name!r} is the beginning of {', '.join(one.run for one in begun)}: say more")
        last = ", ".join(known.run for known in everything[-4:])
        newest = f"; the newest are {last}" if last else ""
        raise RunNotFound(f"no run {name!r} in the namespace {self.namespace}{newest}")

    def find(self, name: str) -> str:
        return self._find(name).run

    def list(self) -> list[state.RunStatus]:
        query = {"labelSelector": words.ALL_RUNS}
        pods = self.api.request("GET", path("v1", "pods", self.namespace), query=query)["items"]
        found = []
        for known in self._known():
            mine = [pod for pod in pods if pod["metadata"]["labels"].get(words.RUN) == known.run]
            mine.sort(key=lambda pod: pod["metadata"]["creationTimestamp"])
            found.append(self._status(known, mine))
        return found

    def status(self, run: str) -> state.RunStatus:
        """A lead that has just ended is not yet known to have: for a moment that can't be told from one that is
        about to begin."""
        known = self._find(run)
        until = time.monotonic() + SETTLE_LIMIT
        while True:
            pods = self._lead_pods(known)
            status = self._status(known, pods)
            if status.phase != state.QUEUED or time.monotonic() > until:
                return status
            if status.reason != runs.ABOUT_TO_BEGIN or not runs.unsettled(pods, time.time()):
                return status
            time.sleep(LOOK_AGAIN)  # nothing tells earlier than the API does

    def _lead_pods(self, known: runs.Known) -> Sequence[Object]:
        return reaching.lead_pods(self.api, self.namespace, known.run)

    def _status(self, known: runs.Known, pods: Sequence[Object]) -> state.RunStatus:
        status = runs.status(known, pods)
        if status.ended:
            return status
        try:
            connection = self._reach(known, pods)
            try:
                told, _ = connection.answer("status")
            finally:
                connection.close()
        except (LeadGone, reaching.NoForward):
            return self.explained(status)
        return self.explained(state.RunStatus.from_json(told["status"]))

    def explained(self, status: state.RunStatus) -> state.RunStatus:
        if status.phase not in explaining.WAITING:
            return status
        return explaining.explained(status, self._seen(status))

    def _seen(self, status: state.RunStatus) -> Seen:
        if self._watch is not None and self._watch.run == status.id:
            return self._watch.seen()
        base = words.base(status.name, status.id)
        return seeing.look(self.api, self.namespace, status.id, base)

    def watch(self, run: str, changed: Callable[[], None]) -> seeing.Watch:
        known = self._find(run)
        self._watch = seeing.Watch(self.api, self.namespace, known.run, known.base, changed)
        return self._watch

    def hopeless(self, status: state.RunStatus) -> str:
        """Only told by what is watched: one look may be too early, or too late."""
        if self._watch is None or self._watch.run != status.id or status.phase not in explaining.WAITING:
            return ""
        return explaining.hopeless(status, self._watch.seen())

    def stuck(self, status: state.RunStatus) -> bool:
        return status.reason != runs.ABOUT_TO_BEGIN

    def give_up(self, run: str) -> None:
        from hora.places.kubernetes.submitting import delete

        delete(self.api, self.namespace, self._find(run).base)

    # --- talking, reading ---

    def attach(self, run: str) -> Connection:
        first = self._first.pop(run, None)
        if first is not None:
            return first
        known = self._find(run)
        pods = self._lead_pods(known)
        if runs.verdict(pods) is not None:
            raise LeadGone(f"run {known.run} has ended")
        return self._reach(known, pods)

    def _reach(self, known: runs.Known, pods: Sequence[Object]) -> Connection:
        alive = [pod for pod in pods if reaching.may_run(pod)]
        if not alive:
            raise LeadGone(f"the lead of run {known.run} has no pod that runs")
        identity = self._identities.get(known.run)
        if identity is None:
            identity = reaching.client_identity(self.api, self.namespace, known.base)
            self._identities[known.run] = identity
        return reaching.connect(self.api, self.namespace, alive[-1]["metadata"]["name"], identity)

    def history(self, run: str, start: int = 0) -> Iterator[Chunk]:
        known = self._find(run)
        pods = self._lead_pods(known)
        if runs.verdict(pods) is None:
            try:
                connection = self._reach(known, pods)
            except (LeadGone, reaching.NoForward):
                pass
            else:
                yield from _so_far(connection, start)
                return
        for pod in pods[-1:]:
            query = {"container": words.LEAD, "timestamps": "true"}
            where = path("v1", "pods", self.namespace, pod["metadata"]["name"], "log")
            for chunk in kept.chunks(self.api.lines(where, query)):
                if chunk.number >= start:
                    yield chunk

    def results(self, run: str) -> dict[str, bytes]:
        connection = self.attach(run)
        try:
            number = connection.ask("results")
            found: dict[str, bytes] = {}
            while not connection.closed:
                for header, body in connection.frames(30.0):
                    if header.get("id") == number and header["t"] == "result":
                        found[header["label"]] = body
                    elif header.get("id") == number:
                        return found
        finally:
            connection.close()
        raise LeadGone(f"the results of run {run} went with its lead")

    def delete(self, run: str) -> None:
        from hora.places.kubernetes.submitting import delete

        known = self._find(run)
        if not self.status(known.run).ended:
            raise UsageError(f"run {known.run} is still going on: `hora stop {known.run}` first")
        delete(self.api, self.namespace, known.base)


def _close_all(connections: dict[str, Connection]) -> None:
    for connection in connections.values():
        connection.close()


def _so_far(connection: Connection, start: int) -> Iterator[Chunk]:
    try:
        number = connection.ask("output", start=start, follow=False)
        while not connection.closed:
            for header, body in connection.frames(30.0):
                if header.get("id") != number:
                    continue
                if header["t"] == "end":
                    return
                label, dropped = header["label"], header.get("dropped", 0)
                yield Chunk(header["n"], label, header["at"], header["a"], body, dropped)
    finally:
        connection.close()
    raise PlaceError("the connection to the lead broke while it told its output; try again")
