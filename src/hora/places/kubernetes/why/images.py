"""Why an image can't be had, from what the kubelet and the container runtime say."""

from __future__ import annotations

import re

from hora.places.kubernetes.why.kinds import SINCE, Reason
from hora.places.kubernetes.why.objects import happened, newest, short

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from hora.places.kubernetes.why.kinds import Object

WAITING = (
    "ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "ImageInspectError",
    "RegistryUnavailable", "SignatureValidationFailed",
)  # fmt: skip
CORRECT = "correct image: in the job file, or give another --image"
_LOGIN = f"{CORRECT}; for a private image name its pull Secret in kubernetes.imagePullSecrets"
_AGAIN = "it is tried again by itself; see that the nodes reach that registry, or use another one"

# The first that matches holds.  {registry} and {image} stand for themselves.
_SAYS: tuple[tuple[str, str, str, str], ...] = (
    ("image-arch", r"no match for platform|no matching manifest",
     "the image {image} isn't made for the node's kind of machine",
     ("build it for that too (docker buildx build --platform linux/amd64,linux/arm64), or choose the nodes: "
     "placement.nodeSelector {kubernetes.io/arch: amd64}")),
    ("image-rate-limit", r"toomanyrequests|429 Too Many|rate limit|pull QPS exceeded",
     "{registry} gives no more images for now: its limit of pulls is reached",
     "it is tried again by itself; an account of that registry in kubernetes.imagePullSecrets may pull more"),
    ("disk-full", r"no space left on device",
     "the node's disk is full, so the image {image} can't be stored",
     "ask who runs the cluster to free it, or choose other nodes: placement.nodeSelector"),
    ("image-signature", r"signature validation failed|SignatureValidationFailed",
     "the signature of the image {image} isn't accepted", "use an image that is signed as the cluster asks"),
    ("image-tls", r"x509:|tls: |server gave HTTP response to HTTPS client",
     "the node doesn't trust the certificate of {registry}: {detail}",
     "ask who runs the cluster to have the nodes trust it, or use another registry"),
    ("image-dns", r"no such host|server misbehaving|name resolution",
     "the nodes know no registry with the name {registry}", f"{CORRECT}; or ask who runs the cluster's DNS"),
    ("image-denied", r"may require authorization|pull access denied",
     "{registry} shows no image {image}: it doesn't exist, or it needs a login", _LOGIN),
    ("image-denied", (r"\b40[13]\b|unauthorized|[Ff]orbidden|no basic auth credentials|denied|"
     r"authorization failed|authentication required"),
     "{registry} doesn't let the cluster have the image {image}",
     ("name a Secret that opens it in kubernetes.imagePullSecrets (kubectl create secret docker-registry), "
     "or see whether the one that is named has expired")),
    ("image-not-found", r"not found|NotFound|manifest unknown|name unknown|\b404\b",
     "{registry} has no image {image}", CORRECT),
    ("image-unreachable",
     (r"connection refused|timeout|timed out|no route to host|unreachable|deadline exceeded|connection reset|"
     r"\bEOF\b|RegistryUnavailable|registry is unavailable|\b50\d\b"),
     "{registry} doesn't answer the node", _AGAIN),
)  # fmt: skip
_FINAL = ("image-arch",)


def waiting(reason: str, message: str, image: str, where: str, events: Sequence[Object]) -> Reason:
    """A container that waits for its image."""
    if reason == "InvalidImageName":
        return Reason("image-name", f"{image} isn't the name of an image", CORRECT, final=True)
    if reason == "ErrImageNeverPull":
        what = f"the image {image} isn't on {where}, and kubernetes.imagePullPolicy is Never"
        return Reason(
            "image-never", what, "set kubernetes.imagePullPolicy: IfNotPresent, or load it onto the nodes"
        )
    if ": " not in message or (message.startswith("Back-off pulling") and "rr" not in message):
        message = _failure(events) or message  # before 1.32 a back-off didn't repeat the cause
    return failed(f"{reason}: {message}", image)


def failed(message: str, image: str) -> Reason:
    for kind, pattern, what, step in _SAYS:
        if re.search(pattern, _without(message, image)):
            filled = what.replace("{detail}", _detail(message)).replace("{image}", image)
            return Reason(kind, filled.replace("{registry}", registry(image)), step, kind in _FINAL)
    detail = _detail(message)
    why = f": {detail}" if detail and not detail.startswith("Back-off") else ""
    return Reason("image-failed", f"the image {image} can't be pulled{why}", CORRECT)


def pulling(image: str, events: Sequence[Object]) -> Reason | None:
    """What goes on before the container's state says anything."""
    about = [event for event in events if "image" in str(event.get("message"))]
    last = newest(about, "Pulling", "Pulled", "Failed", "BackOff")
    if last is None or last["reason"] == "Pulled":
        return None
    if last["reason"] == "Pulling":
        what = f"the image {image} is being pulled{SINCE}"
        return Reason(
            "image-pulling", what, "wait; a large image takes minutes on each new node", since=happened(last)
        )
    return failed(_failure(events) or str(last.get("message", "")), image)


def registry(image: str) -> str:
    first, slash, _ = image.partition("/")
    return first if slash and ("." in first or ":" in first or first == "localhost") else "Docker Hub"


def _failure(events: Sequence[Object]) -> str:
    found = (str(event.get("message", "")) for event in events if event.get("reason") == "Failed")
    return next((message for message in found if message.startswith("Failed to pull image")), "")


def _without(message: str, image: str) -> str:
    """An image may be called not-found:404."""
    repository, _, tag = image.rpartition(":")
    for part in (image, repository if "/" in repository else "", tag if len(tag) > 2 else ""):
        message = message.replace(part, "IMAGE") if part else message
    return message


def _detail(message: str) -> str:
    """The last part of a chain of causes says most."""
    message = short(message, 1000)
    for mark in (" x509: ", " tls: ", " http: ", "desc = "):
        _, found, rest = message.rpartition(mark)
        if found:
            return short((mark.strip() + " " if mark != "desc = " else "") + rest, 160)
    return short(message.partition(": ")[2] or message, 160)
