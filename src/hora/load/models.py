"""The keys of the job file, each declared once: type, default, allowed values, help.

Validation, `hora schema` and docs/reference/job-file.md come from here; `build.py` turns the models into a
spec.  A default of None means "not given": a role then takes the job's value, the job what `built_in` says.
"""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field, model_validator

from hora.load import rules
from hora.load.flags import help_of
from hora.load.values import one_of, shown
from hora.spec import VOLUME_KINDS


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def _key(told: str, default: Any = None, example: str = "", built_in: str = "") -> Any:
    """`example` and `built_in` (the default where the model says None) are for the reference."""
    return Field(default, description=told, json_schema_extra={"x-example": example, "x-default": built_in})


class Keys(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", alias_generator=_camel, validate_default=True)

    @model_validator(mode="before")
    @classmethod
    def _given(cls, data: Any) -> Any:
        """A key without a value (`image:`) counts as not given."""
        if isinstance(data, cls):
            return data
        if data is None or (isinstance(data, str) and data in ("", "~", "null", "Null", "NULL")):
            return {}
        if not isinstance(data, dict):
            raise ValueError(f"must be a map (key: value), got {shown(data)}")
        return {key: value for key, value in data.items() if not is_nothing(value)}


def is_nothing(value: Any) -> bool:
    """YAML's null, however written; "" in quotes is a value."""
    return value is None or getattr(value, "value", value) is None


class ResourcesKeys(Keys):
    cpu: rules.Cpu | None = _key(help_of("resources.cpu"), example="500m")
    memory: rules.Size | None = _key(help_of("resources.memory"), example="4Gi")
    gpu: rules.Natural | None = _key(help_of("resources.gpu"), example="1", built_in="0")
    shm: rules.Size | None = _key(help_of("resources.shm"), example="1Gi")
    other: dict[rules.LabelKey, rules.Written] = Field(
        {},
        alias="DOMAIN/NAME",
        description="Any other resource that Kubernetes knows, by its full name.",
        json_schema_extra={"x-example": '{"rdma/hca": 1}', "x-default": ""},
    )

    @model_validator(mode="before")
    @classmethod
    def _full_names(cls, data: Any) -> Any:
        """Keys with a domain stand beside cpu and memory in the file, as in Kubernetes."""
        if not isinstance(data, dict):
            return data
        other = {key: value for key, value in data.items() if isinstance(key, str) and "/" in key}
        rest = {key: value for key, value in data.items() if key not in other}
        return {**rest, "DOMAIN/NAME": other} if other else rest


class SecretKeys(Keys):
    secret: rules.Object | None = _key(
        "Name of a Kubernetes Secret in the run's namespace.", example="my-secret"
    )
    key: rules.SomeText | None = _key("Key in that Secret.", example="token")
    env: rules.Variable | None = _key("Variable of the caller's environment.", example="HOME_TOKEN")
    file: rules.SomeText | None = _key("File of the caller.", example="~/.token")

    @model_validator(mode="before")
    @classmethod
    def _no_value(cls, data: Any) -> Any:
        if isinstance(data, (dict, SecretKeys)):
            return data
        # What was written isn't repeated: it may be the secret itself.
        forms = "{secret: NAME, key: KEY}, {env: VARIABLE} or {file: PATH}"
        raise ValueError(f"must be {forms}: a secret's value never stands in a job file")

    @model_validator(mode="after")
    def _one_source(self) -> SecretKeys:
        given = [name for name in ("secret", "env", "file") if getattr(self, name) is not None]
        if len(given) != 1:
            got = " and ".join(given) or "none"
            raise ValueError(f"needs exactly one of secret (with key), env and file, got {got}")
        if (self.secret is None) != (self.key is None):
            raise ValueError("needs secret and key together")
        return self


class CodeKeys(Keys):
    path: rules.SomeText | None = _key("Folder; relative to the job file.", example=".")
    git: rules.SomeText | None = _key("Repository to clone instead.", example="https://example.org/train.git")
    ref: rules.SomeText | None = _key("Branch, tag or commit of that repository.", example="main")

    @model_validator(mode="before")
    @classmethod
    def _short(cls, data: Any) -> Any:
        if isinstance(data, (dict, CodeKeys)):
            return data
        if isinstance(data, str) and not is_nothing(data):
            return {"path": data}
        raise ValueError(f"must be a folder, or a map as {{git: URL, ref: main}}, got {shown(data)}")

    @model_validator(mode="after")
    def _one_source(self) -> CodeKeys:
        if (self.path is None) == (self.git is None):
            raise ValueError("needs a folder, or git: URL, and not both")
        if self.ref is not None and self.git is None:
            raise ValueError("has ref without git")
        return self


class NfsKeys(Keys):
    server: rules.SomeText = _key("Address of the server.", ..., "10.0.0.2")
    path: rules.Path = _key("Exported folder.", ..., "/export/ckpt")


class AzureFileKeys(Keys):
    secret_name: rules.Object = _key("Secret with the account's name and key.", ..., "azure-account")
    share_name: rules.SomeText = _key("Name of the share.", ..., "training")


class CsiKeys(Keys):
    driver: rules.SomeText = _key("Name of the driver.", ..., "secrets-store.csi.k8s.io")
    fs_type: rules.SomeText | None = _key("File system.", example="ext4")
    volume_attributes: dict[str, rules.Written] = _key("Attributes for the driver.", {}, "{share: data}")
    node_publish_secret: rules.Object | None = _key("Secret that the driver is given.", example="csi-account")


class VolumeKeys(Keys):
    mount: rules.Path = _key("Where the ranks see it.", ..., "/ckpt")
    pvc: rules.Object | None = _key("PersistentVolumeClaim by name.", example="checkpoints")
    nfs: NfsKeys | None = _key("Folder of an NFS server.", example="{server: 10.0.0.2, path: /export}")
    azure_file: AzureFileKeys | None = _key(
        "Azure file share.", example="{secretName: account, shareName: data}"
    )
    host_path: rules.Path | None = _key("Folder of the node.", example="/data")
    csi: CsiKeys | None = _key("Volume of a CSI driver.", example="{driver: csi.example.org}")
    memory: rules.Size | None = _key("Memory as a folder, of this size.", example="1Gi")
    scratch: rules.Size | None = _key("Empty folder on the node's disk, of this size.", example="10Gi")
    config_map: rules.Object | None = _key("ConfigMap by name; its keys are files.", example="settings")
    secret: rules.Object | None = _key("Secret by name; its keys are files.", example="certificates")
    sub_path: rules.SomeText | None = _key("Only this folder of the volume.", example="runs/1")
    read_only: rules.Flag = _key("The ranks can't write to it.", False, "true")

    @model_validator(mode="after")
    def _one_kind(self) -> VolumeKeys:
        given = [kind for kind in VOLUME_KINDS if getattr(self, _snake(kind)) is not None]
        if len(given) != 1:
            raise ValueError(
                f"needs exactly one of {one_of(VOLUME_KINDS)}, got {' and '.join(given) or 'none'}"
            )
        return self


def _snake(kind: str) -> str:
    return "".join("_" + char.lower() if char.isupper() else char for char in kind)


class NetworkKeys(Keys):
    host: rules.Flag = _key("Pods share their node's network.", False, "true")
    interface: rules.InterfaceName = _key(
        "Network interface between members; auto finds the one that reaches the peers.", "auto", "eth0"
    )
    ports: rules.PortRange | None = _key(
        "Ports that the ranks may be given.", example="30000-30063", built_in="any that is free"
    )
    allow_from: tuple[rules.Peer, ...] = _key("Who else may connect to the members.", (), "[10.0.0.0/8]")


class TolerationKeys(Keys):
    key: rules.LabelKey | None = _key("Key of the taint.", example="gpu")
    operator: rules.TolerationOperator | None = _key("How value is compared.", example="Exists")
    value: rules.Written | None = _key("Value of the taint.", example="a100")
    effect: rules.TolerationEffect | None = _key("Effect of the taint.", example="NoSchedule")
    toleration_seconds: rules.Natural | None = _key("Seconds until eviction.", example="60")


class PlacementKeys(Keys):
    node_selector: dict[rules.LabelKey, rules.LabelValue] | None = _key(
        "Labels that the nodes must have.", example="{disk: nvme}", built_in="{}"
    )
    tolerations: tuple[TolerationKeys, ...] | None = _key(
        "Taints that are accepted.", example="[{key: gpu, operator: Exists}]", built_in="[]"
    )
    affinity: rules.JsonMap | None = _key(
        "Affinity, in Kubernetes' words.", example="{nodeAffinity: {}}", built_in="{}"
    )
    priority_class: rules.Text | None = _key("PriorityClass by name.", example="high", built_in='""')
    queue: rules.Text | None = _key("Kueue's LocalQueue.", example="team-a", built_in='""')
    scheduler: rules.Text | None = _key("Scheduler by name.", example="volcano", built_in='""')


class TimeoutKeys(Keys):
    schedule: rules.Limit = _key("Until every member has a node.", "30m", "2h")
    start: rules.Limit = _key("From then until every rank has begun, image pulls apart.", "10m", "20m")
    stall: rules.Limit = _key("Without output or CPU time from any rank.", "15m", "1h")
    total: rules.Limit = _key("The whole run.", "none", "24h")
    grace: rules.Span = _key("From SIGTERM to SIGKILL.", "30s", "2m")


class ServiceKeys(Keys):
    image: rules.SomeText | None = _key(
        "Container image; the first role's where absent.", example="tensorboard:2"
    )
    port: rules.PortNumber | None = _key("Port of its web page.", example="6006", built_in="its usual one")
    resources: ResourcesKeys = _key("As for roles.", {}, "{cpu: 1}")
    env: dict[rules.Variable, rules.Written] = _key("Its environment.", {}, "{LANG: C.UTF-8}")


class TensorboardKeys(ServiceKeys):
    logdir: rules.SomeText = _key("Folder with the event files.", ..., "/ckpt/logs")


class JupyterKeys(ServiceKeys):
    folder: rules.SomeText | None = _key("Folder that it opens.", example="/work")


class DaskKeys(ServiceKeys):
    workers: rules.Count | None = _key("Number of Dask workers.", example="4", built_in="1")


class ServicesKeys(Keys):
    tensorboard: TensorboardKeys | None = _key("TensorBoard.", example="{logdir: /ckpt/logs}")
    jupyter: JupyterKeys | None = _key("JupyterLab.", example="{folder: /work}")
    dask: DaskKeys | None = _key("Dask scheduler, workers and dashboard.", example="{workers: 4}")

    @model_validator(mode="before")
    @classmethod
    def _named_is_wanted(cls, data: Any) -> Any:
        """`jupyter:` alone asks for it, though elsewhere a key without a value isn't given."""
        if not isinstance(data, dict):
            return data
        return {key: {} if is_nothing(value) else value for key, value in data.items()}


class RoleKubernetesKeys(Keys):
    labels: dict[rules.LabelKey, rules.LabelValue] | None = _key(
        "More labels on all objects.", example="{team: vision}", built_in="{}"
    )
    annotations: dict[rules.LabelKey, rules.Written] | None = _key(
        "More annotations on all objects.", example="{owner: me}", built_in="{}"
    )
    service_account: rules.SomeText | None = _key(
        "ServiceAccount of the pods.", example="training", built_in="the namespace's default"
    )
    image_pull_secrets: tuple[rules.SomeText, ...] | None = _key(
        "Secrets that open the registry.", example="[registry]", built_in="[]"
    )
    image_pull_policy: rules.PullPolicy | None = _key(
        "When the image is pulled.", example="Always", built_in="Kubernetes' own"
    )
    user: rules.Natural | None = _key(
        "User id of the ranks.", example="1000", built_in="1000, or what the cluster assigns"
    )
    group: rules.Natural | None = _key("Group id of the ranks.", example="1000", built_in="as user")
    fs_group: rules.Natural | None = _key("Group that owns the volumes.", example="1000", built_in="as group")
    runtime_class: rules.SomeText | None = _key("RuntimeClass by name.", example="nvidia")
    pod_patch: rules.JsonMap | None = _key(
        "Merged into the pods last; an answer to what no key covers.",
        example="{spec: {hostIPC: true}}",
        built_in="{}",
    )


class KubernetesKeys(RoleKubernetesKeys):
    namespace: rules.Namespace | None = _key(
        "Where the run lives.", example="training", built_in="the context's"
    )


class SharedKeys(Keys):
    """What a job says for all its roles, or one role for itself."""

    command: rules.Command | None = _key("What each rank runs.", example="[python, train.py]")
    image: rules.SomeText | None = _key(help_of("image"), example="python:3.12")
    resources: ResourcesKeys = _key(
        "What each member needs, as Kubernetes counts.", {}, "{cpu: 2, memory: 4Gi}"
    )
    env: dict[rules.Variable, rules.Written] = _key(help_of("env"), {}, '{LR: "0.1"}')
    secrets: dict[rules.Variable, SecretKeys] = _key(help_of("secrets"), {}, "{TOKEN: {env: HOME_TOKEN}}")
    volumes: tuple[VolumeKeys, ...] = _key(
        "What the members mount.", (), "[{mount: /ckpt, pvc: checkpoints}]"
    )
    placement: PlacementKeys = _key("Which nodes, in which queue.", {}, "{nodeSelector: {disk: nvme}}")


class RoleKeys(SharedKeys):
    replicas: rules.Count = _key("Number of members.", 1, "4")
    ranks: rules.Count = _key("Ranks (processes) in each member.", 1, "2")
    kubernetes: RoleKubernetesKeys = _key("What only Kubernetes knows.", {}, "{user: 0}")


class JobKeys(SharedKeys):
    version: rules.Version = _key("Version of the job file's format.", 1, "1")
    name: rules.JobName | None = _key(help_of("name"), example="digits", built_in="from the script or folder")
    framework: rules.Framework | None = _key(help_of("framework"), example="torch", built_in="found")
    workers: rules.Count | None = _key(help_of("workers"), example="4", built_in="1")
    ranks_per_worker: rules.Count | None = _key(help_of("ranksPerWorker"), example="2", built_in="1")
    code: CodeKeys | None = _key(help_of("code"), example=".")
    setup: rules.Text = _key(help_of("setup"), "", "pip install -r requirements.txt")
    network: NetworkKeys = _key("How members reach each other.", {}, "{interface: eth0}")
    timeouts: TimeoutKeys = _key(help_of("timeouts"), {}, "{total: 24h}")
    stall: rules.StallAction = _key(help_of("stall"), "report", "kill")
    restarts: rules.Natural = _key(help_of("restarts"), 0, "2")
    keep: rules.Limit = _key(help_of("keep"), "24h", "1h")
    output: rules.Output = _key(help_of("output"), "5Gi", "500Mi")
    services: ServicesKeys = _key(help_of("services"), {}, "{tensorboard: {logdir: /ckpt/logs}}")
    roles: dict[rules.RoleName, RoleKeys] = _key(
        "The long form: any roles, instead of workers.", {}, "{worker: {replicas: 4}}"
    )
    kubernetes: KubernetesKeys = _key("What only Kubernetes knows.", {}, "{namespace: training}")
