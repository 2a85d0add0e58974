"""Why a container doesn't start, or how it ended, from its state."""

from __future__ import annotations

import re

from hora.places.kubernetes import words
from hora.places.kubernetes.why import images, missing
from hora.places.kubernetes.why.kinds import SINCE, Reason
from hora.places.kubernetes.why.objects import at_node, container, moment, short, statuses, whose_container

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from hora.places.kubernetes.why.kinds import Object

CONFIG = ("CreateContainerConfigError", "PreCreateHookError")
START = ("CreateContainerError", "RunContainerError", "PostStartHookError", "PreStartHookError")
FAILED_TO_START = ("StartError", "ContainerCannotRun")
NO_LEAD = "see `hora status` for the lead; a NetworkPolicy of the namespace may keep the pods apart"
PYTHON = "use an image with Python 3.8 or newer, as python:3.12-slim"
_ARCH = (
    "use an image for the node's kind of machine, or choose the nodes: placement.nodeSelector "
    "{kubernetes.io/arch: amd64}"
)
_RUNTIME = "it is tried again by itself; ask who runs the cluster if it stays"


def waiting(pod: Object, status: Object, events: Sequence[Object], base: str) -> Reason | None:
    state = (status.get("state") or {}).get("waiting") or {}
    reason, message = str(state.get("reason", "")), str(state.get("message", ""))
    name, image = str(status.get("name", "")), image_of(pod, status)
    if reason in images.WAITING:
        found = images.waiting(reason, message, image, at_node(pod), events)
    elif reason in CONFIG:
        found = config(message, base)
    elif reason in START:
        found = start(message, pod, image, name)
    elif reason == "CrashLoopBackOff":
        return ended(pod, status, "lastState") or Reason(
            "container-ended", f"{whose_container(name)}its container ends again and again", _logs(pod, name)
        )
    else:
        return None
    return _of_container(found, name)


def image_of(pod: Object, status: Object) -> str:
    """As the job names it: the status may name what the node resolved."""
    name = str(status.get("name", ""))
    return str(container(pod, name).get("image") or status.get("image") or "")


def _of_container(reason: Reason, name: str) -> Reason:
    prefix = whose_container(name)
    return (
        Reason(reason.kind, prefix + reason.what, reason.next, reason.final, reason.since)
        if prefix
        else reason
    )


# --- settings ----------------------------------------------------------------------------------------

_SUB_PATH = (
    r'(?:prepare subPath|create subPath directory) for volumeMount "([^"]+)"|unable to provision SubPath'
)


def config(message: str, base: str) -> Reason:
    gone = missing.missing(message, base)
    if gone is not None:
        return gone
    if "image will run as root" in message:
        what = "its image runs as root, and the pod must not"
        return Reason("user-root", what, "set kubernetes.user to a number such as 1000", final=True)
    user = re.search(r"image has non-numeric user \(([^)]*)\)", message)
    if user:
        what = f"its image runs as {user[1]}, and only a number shows that this isn't root"
        return Reason("user-name", what, f"set kubernetes.user to the number of {user[1]}", final=True)
    if re.search(_SUB_PATH, message):
        step = "subPath in volumes must be a folder that the ranks' user may enter (kubernetes.user, fsGroup)"
        return Reason("sub-path", "a subPath of its volumes can't be used", step)
    return Reason("container-config", f"its settings can't be used: {short(message)}", _RUNTIME)


# --- start -------------------------------------------------------------------------------------------

_SAYS: tuple[tuple[str, str, str, str, bool], ...] = (
    ("image-arch", r"exec format error", "its image {image} is for another kind of machine than {node}", _ARCH, True),
    ("workdir", r'chdir to cwd \(?\\?"?([^"\\)]*)', "the working folder {1} of the image can't be entered",
     "give the image's user that folder, or set workingDir in kubernetes.podPatch", True),
    ("gpu-runtime", r"nvidia-container|CDI device|could not select device driver|libnvidia",
     "{node} can't give the container its GPU: {detail}",
     "ask who runs the cluster for that node's driver, or choose other nodes (placement.nodeSelector)", False),
    ("disk-full", r"no space left on device", "the disk of {node} is full",
     "ask who runs the cluster to free it, or choose other nodes (placement.nodeSelector)", False),
    ("oom", r"OOM-killed|memory limit too low|cannot allocate memory", "its memory limit is too low even to start",
     "raise resources.memory", False),
    ("user-name", r"unable to find user (\S+?):? |unable to find user (\S+)", "its image has no user {1}",
     "set kubernetes.user to a number", True),
    ("not-executable", r'exec: \\?"([^"\\]+)\\?": permission denied|exec (\S+): permission denied',
     "{1} in the image {image} may not be executed by the ranks' user",
     "make it executable in the image (chmod a+rx), or set kubernetes.user", True),
    ("command-missing",
     (r'exec: \\?"([^"\\]+)\\?": (?:executable file not found|stat \S+ no such file|no such file)|'
     r"exec (\S+): no such file or directory"),
     "the image {image} has no {1}", "", True),
)  # fmt: skip


def start(message: str, pod: Object, image: str, name: str) -> Reason:
    for kind, pattern, what, step, final in _SAYS:
        found = re.search(pattern, message)
        if found is None:
            continue
        first = next((group for group in found.groups() if group), "")
        detail = short(message.rpartition("desc = ")[2] or message, 160)
        what = what.replace("{image}", image).replace("{node}", at_node(pod)).replace("{1}", first)
        return Reason(kind, what.replace("{detail}", detail), step or _instead(name), final)
    detail = re.sub(r"^(failed to (create|start)[^:]*: )+", "", message)
    return Reason(
        "container-start", f"{at_node(pod)} can't start its container: {short(detail, 160)}", _RUNTIME
    )


def _instead(name: str) -> str:
    if name in (words.LEAD, words.MEMBER):
        return f"Hora needs a shell (sh) and Python in it: {PYTHON}"
    return "correct its command in kubernetes.podPatch"


# --- end ---------------------------------------------------------------------------------------------


def ended(pod: Object, status: Object, where: str = "state") -> Reason | None:
    state = (status.get(where) or {}).get("terminated")
    if not state:
        return None
    name, image = str(status.get("name", "")), image_of(pod, status)
    code, reason, message = (
        state.get("exitCode"),
        str(state.get("reason", "")),
        str(state.get("message") or ""),
    )
    if reason in FAILED_TO_START:
        return _of_container(start(message, pod, image, name), name)
    if reason == "OOMKilled":
        return _of_container(oom(pod, name), name)
    if "exec format error" in message:
        return _of_container(start(message, pod, image, name), name)
    if code == 127 and "has no python3" in message:
        return Reason("no-python", f"the image {image} has no Python", PYTHON, final=True)
    if code == 0 or (name == words.LEAD and code == words.VERDICT):
        return None  # the run's own end: the lead has told it
    return _of_container(_code(pod, name, code, reason), name)


def _code(pod: Object, name: str, code: object, reason: str) -> Reason:
    if name == words.MEMBER and code == words.GAVE_UP:
        return Reason("gave-up", "it found no lead for too long, and gave up", NO_LEAD)
    if reason == "ContainerStatusUnknown":
        step = "ask who runs the cluster what happened to that node; the pod is made again"
        return Reason("node-lost", f"{at_node(pod)} lost its container", step)
    if code == 137:
        step = "look at its memory first (resources.memory): that is the usual reason"
        return Reason("killed", "it was killed (signal 9)", step)
    return Reason(
        "container-ended", f"its container ended with code {code} before the run was over", _logs(pod, name)
    )


def _logs(pod: Object, name: str) -> str:
    if name in (words.LEAD, words.MEMBER):
        return "see its last lines: `hora logs`"
    return f"see its last lines: kubectl logs {pod['metadata'].get('name')} -c {name}"


def oom(pod: Object, name: str) -> Reason:
    limit = ((container(pod, name).get("resources") or {}).get("limits") or {}).get("memory")
    if name == words.LEAD:
        what = f"Hora's own part ran out of memory (limit {limit}) and was killed"
        return Reason("oom", what, "it is made again; please report it, with `hora status -o json`")
    if limit is None:
        what = f"the memory of {at_node(pod)} was not enough, and it was killed (OOM)"
        return Reason("oom", what, "set resources.memory, so that the job gets a node with enough")
    what = f"its memory limit of {limit} was not enough, and it was killed (OOM)"
    return Reason("oom", what, "raise resources.memory, or let each rank use less, as with smaller batches")


# --- init containers: those of podPatch, or put in by the cluster -----------------------------------


def init(pod: Object, events: Sequence[Object], base: str) -> Reason | None:
    for status in statuses(pod, "initContainerStatuses"):
        name = str(status.get("name", ""))
        state = status.get("state") or {}
        sidecar = container(pod, name).get("restartPolicy") == "Always"
        end = state.get("terminated") or (status.get("lastState") or {}).get("terminated") or {}
        failed = end.get("exitCode") not in (0, None) and end.get("reason") not in FAILED_TO_START
        if failed and not (sidecar and status.get("started")):
            how = (
                "ran out of memory"
                if end.get("reason") == "OOMKilled"
                else f"ended with code {end['exitCode']}"
            )
            return Reason("init-failed", f"the init container {name} {how}", _logs(pod, name))
        held = waiting(pod, status, events, base) or ended(pod, status)
        if held is not None:
            return held
        if "running" in state and not sidecar:
            since = moment(state["running"].get("startedAt"))
            what = f"the init container {name} is still running{SINCE}"
            return Reason("init-running", what, _logs(pod, name), since=since)
    return None
