"""Numbers of a job in Kubernetes' words."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hora.spec import Resources

GPU = "nvidia.com/gpu"
_SIZES = (("Ti", 1 << 40), ("Gi", 1 << 30), ("Mi", 1 << 20), ("Ki", 1 << 10))


def cpu(number: float) -> str:
    thousandths = round(number * 1000)
    return str(thousandths // 1000) if thousandths % 1000 == 0 else f"{thousandths}m"


def size(number: int) -> str:
    for unit, bytes_ in _SIZES:
        if number and number % bytes_ == 0:
            return f"{number // bytes_}{unit}"
    return str(number)


def requirements(resources: Resources) -> dict[str, dict[str, str]]:
    """What is asked for is what is given: no member lives on what its neighbours leave.

    A member that asks for nothing gets little for sure and has no limit: its namespace may set one.
    """
    limits: dict[str, str] = {}
    if resources.cpu is not None:
        limits["cpu"] = cpu(resources.cpu)
    if resources.memory is not None:
        limits["memory"] = size(resources.memory + (resources.shm or 0))  # shared memory counts as memory
    if resources.gpu:
        limits[GPU] = str(resources.gpu)
    limits.update(resources.other)
    requests = {"cpu": "100m", "memory": "128Mi", **limits}
    return {"requests": requests, "limits": limits} if limits else {"requests": requests}
