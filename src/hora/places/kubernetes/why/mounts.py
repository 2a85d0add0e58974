"""Why a pod with a node has no volume or no sandbox yet, from the kubelet's events."""

from __future__ import annotations

import re

from hora.places.kubernetes.why import missing
from hora.places.kubernetes.why.kinds import Reason
from hora.places.kubernetes.why.objects import at_node, happened, short

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from hora.places.kubernetes.why.kinds import Object

_LATER = ("Pulling", "Pulled", "Created", "Started")  # these come when all volumes are there
_PASSING = re.compile(r'object "[^"]*"/"[^"]*" not registered|failed to sync \w+ cache')
_ASK = "it is tried again by itself; ask who runs the cluster if it stays"


def held_up(pod: Object, events: Sequence[Object], base: str) -> Reason | None:
    """The newest of these events, unless the pod has come further since."""
    for event in events:
        reason, message = event.get("reason"), str(event.get("message", ""))
        if reason in _LATER:
            return None
        if reason in ("FailedMount", "FailedAttachVolume", "FailedMapVolume") and not _PASSING.search(
            message
        ):
            return _better([each for each in events if happened(each) >= happened(event) - 180], pod, base)
        if reason in ("FailedCreatePodSandBox", "NetworkNotReady"):
            return sandbox(pod, message)
    return None


def _better(events: Sequence[Object], pod: Object, base: str) -> Reason:
    """The kubelet says every two minutes that it waited in vain, and in between what is wrong."""
    found = [
        each
        for each in events
        if each.get("reason") in ("FailedMount", "FailedAttachVolume", "FailedMapVolume")
    ]
    telling = [
        each for each in found if "timed out waiting for the condition" not in str(each.get("message"))
    ]
    return mount(pod, str((telling or found)[0].get("message", "")), base)


_SAYS: tuple[tuple[str, str, str, str], ...] = (
    ("claim-in-use", r"Multi-Attach error|exclusively attached to one node|already used by pod",
     "{volume} is ReadWriteOnce and in use on another node",
     "let one member mount it, take a claim with ReadWriteMany, or wait until the other pod ends"),
    ("csi-driver", r"not found in the list of registered CSI drivers", "{node} has no driver for {volume}",
     "choose nodes that have it (placement.nodeSelector), or another volume"),
    ("volume-mount", r"need a /sbin/mount", "{node} lacks the program that mounts {volume}",
     "ask who runs the cluster to install it, or choose other nodes (placement.nodeSelector)"),
    ("volume-mount", r"hostPath type check failed", "{volume} isn't there on {node}",
     "correct hostPath in volumes, or choose the nodes that have it (placement.nodeSelector)"),
    ("volume-mount", r"access denied|Permission denied|permission denied", "{volume} may not be mounted by {node}",
     "let the server allow the nodes' addresses, or correct volumes"),
    ("volume-mount", r"No such file or directory|no such file or directory", "{volume} isn't there",
     "correct the path in volumes"),
    ("volume-mount", r"timed out|Connection refused|No route to host|not responding|i/o timeout",
     "the server of {volume} doesn't answer {node}", f"see that the nodes reach it, or correct volumes; {_ASK}"),
)  # fmt: skip


def mount(pod: Object, message: str, base: str) -> Reason:
    gone = missing.missing(message, base)
    if gone is not None:
        return gone
    volume = _volume(pod, message)
    for kind, pattern, what, step in _SAYS:
        if re.search(pattern, message):
            return Reason(kind, what.replace("{volume}", volume).replace("{node}", at_node(pod)), step)
    detail = short(re.sub(r"^MountVolume\.\S+ failed for volume \S+ : ?", "", message), 160)
    return Reason("volume-mount", f"{volume} can't be mounted: {detail}", _ASK)


def _volume(pod: Object, message: str) -> str:
    """As the job file names it."""
    named = re.search(r'for volume "([^"]+)"|unmounted volumes=\[([^\] ]+)', message)
    name = (named[1] or named[2]) if named else ""
    for volume in (pod.get("spec") or {}).get("volumes", ()):
        claim = (volume.get("persistentVolumeClaim") or {}).get("claimName")
        if volume.get("name") != name and not (claim and name.startswith("pvc-")):
            continue
        if claim:
            return f"the claim {claim}"
        if "nfs" in volume:
            return f"the nfs volume {volume['nfs'].get('server')}:{volume['nfs'].get('path')}"
        if "hostPath" in volume:
            return f"the hostPath {volume['hostPath'].get('path')}"
        kind = next((key for key in volume if key != "name"), "volume")
        return f"the {kind} volume"
    return f"the volume {name}" if name else "a volume"


def sandbox(pod: Object, message: str) -> Reason:
    handler = re.search(r'no runtime for "([^"]+)"|handler "([^"]+)" not (?:found|supported)', message)
    if handler:
        what = f"{at_node(pod)} has no runtime {handler[1] or handler[2]}"
        return Reason(
            "runtime-class", what, "correct kubernetes.runtimeClass, or choose the nodes that have it"
        )
    told = re.sub(r"^.*?desc = ", "", message)
    told = re.sub(r'for sandbox "[0-9a-f]+"', "", told)  # another one at each try
    what = f"{at_node(pod)} can't make its pod: {short(told, 160)}"
    return Reason("sandbox", re.sub(r"\s+", " ", what).replace(" :", ":"), _ASK)
