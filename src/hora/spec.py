"""The job as the user wrote it, normalised: the short and the long form of a job file give equal specs.

Plain frozen records.  `load/` reads, validates and fills them; every field is declared here once.
"""

from __future__ import annotations

from hora.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

Pairs = tuple[tuple[str, str], ...]

FRAMEWORKS = ("plain", "mpi", "torch", "jax", "tensorflow", "dask")  # others come by entry point
VOLUME_KINDS = ("pvc", "nfs", "azureFile", "hostPath", "csi", "memory", "scratch", "configMap", "secret")
COMING = ("jax", "tensorflow", "dask")  # of them: named already, made by a later version
SERVICES = ("tensorboard", "jupyter", "dask")


class Resources(Record):
    """Per member."""

    cpu: float | None = None
    memory: int | None = None  # bytes
    gpu: int = 0
    shm: int | None = None  # bytes
    other: Pairs = ()  # "rdma/hca": "1"


class SecretSource(Record):
    """Exactly one of: a Kubernetes Secret and key, a variable of the caller, a file of the caller."""

    secret: str | None = None
    key: str | None = None
    env: str | None = None
    file: str | None = None


class Code(Record):
    path: str | None = None  # folder, absolute after loading
    git: str | None = None
    ref: str | None = None


class Volume(Record):
    mount: str
    kind: str  # one of VOLUME_KINDS
    source: tuple[tuple[str, Any], ...] = ()  # values are text, bytes as int, flags, or pairs of text
    sub_path: str | None = None
    read_only: bool = False


class Network(Record):
    host: bool = False
    interface: str = "auto"
    ports: tuple[int, int] | None = None
    allow_from: tuple[str, ...] = ()


class Toleration(Record):
    key: str | None = None
    operator: str | None = None
    value: str | None = None
    effect: str | None = None
    toleration_seconds: int | None = None


class Placement(Record):
    node_selector: Pairs = ()
    tolerations: tuple[Toleration, ...] = ()
    affinity: str = "{}"  # JSON, as Kubernetes reads it
    priority_class: str = ""
    queue: str = ""
    scheduler: str = ""


class Timeouts(Record):
    """Seconds; None is no limit."""

    schedule: float | None = 1800.0
    start: float | None = 600.0
    stall: float | None = 900.0
    total: float | None = None
    grace: float = 30.0


class Service(Record):
    name: str  # one of SERVICES
    options: tuple[tuple[str, Any], ...] = ()  # its own: logdir, folder, workers
    image: str | None = None
    port: int | None = None
    resources: Resources = Resources()
    env: Pairs = ()


class Kubernetes(Record):
    namespace: str | None = None  # the same for all roles
    labels: Pairs = ()
    annotations: Pairs = ()
    service_account: str | None = None
    image_pull_secrets: tuple[str, ...] = ()
    image_pull_policy: str | None = None
    user: int | None = None
    group: int | None = None
    fs_group: int | None = None
    runtime_class: str | None = None
    pod_patch: str = "{}"  # JSON


class RoleSpec(Record):
    name: str
    replicas: int
    ranks: int = 1  # per member
    command: tuple[str, ...] = ()
    image: str | None = None
    resources: Resources = Resources()
    env: Pairs = ()
    secrets: tuple[tuple[str, SecretSource], ...] = ()
    volumes: tuple[Volume, ...] = ()
    placement: Placement = Placement()
    kubernetes: Kubernetes = Kubernetes()


class JobSpec(Record):
    name: str
    framework: str  # always known after loading
    roles: tuple[RoleSpec, ...]
    code: Code | None = None
    setup: str = ""  # a shell command, once per host
    network: Network = Network()
    timeouts: Timeouts = Timeouts()
    restarts: int = 0
    keep: float | None = 86400.0  # seconds
    output: int = 5 * 1024**3  # bytes kept per member
    stall: str = "report"  # or "kill"
    services: tuple[Service, ...] = ()
    version: int = 1

    def role(self, name: str) -> RoleSpec | None:
        return next((role for role in self.roles if role.name == name), None)
