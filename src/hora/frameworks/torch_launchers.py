"""Launchers over torch.distributed that take no options from the environment: missing ones are added.

An option that the command has already is never changed.
"""

from __future__ import annotations

from hora.plan import File, FilePath, Host, HostCount, HostIndex, HostSlots, Join, Port, World

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hora.plan import Value

TORCHRUN = "torchrun"
ACCELERATE = "accelerate"
DEEPSPEED = "deepspeed"
LAUNCHERS = {
    "torchrun": TORCHRUN,
    "-m torch.distributed.run": TORCHRUN,
    "-m torch.distributed.launch": TORCHRUN,
    "accelerate launch": ACCELERATE,
    "accelerate-launch": ACCELERATE,
    "-m accelerate.commands.launch": ACCELERATE,
    "-m accelerate.commands.accelerate_cli launch": ACCELERATE,
    "deepspeed": DEEPSPEED,
    "-m deepspeed.launcher.runner": DEEPSPEED,
}
HOSTFILE = "deepspeed-hosts"
_OWN_LAYOUT = (
    "--hostfile", "-H", "--include", "-i", "--exclude", "-e", "--num_nodes", "--num_gpus",
    "--num_accelerators", "--launcher", "--no_ssh", "--node_rank",
)  # fmt: skip


def accelerate(command: tuple[str, ...], end: int, leader: str, port: str) -> tuple[Value, ...]:
    """`accelerate launch` with what it needs to know.  Sizes in the author's own --config_file stay."""
    sizes: tuple[tuple[str, Value], ...] = (("--num_processes", World()), ("--num_machines", HostCount()))
    where: tuple[tuple[str, Value], ...] = (
        ("--machine_rank", HostIndex()),
        ("--main_process_ip", Host(leader)),
        ("--main_process_port", Port(leader, 0, port)),
    )
    if _has(command, end, ("--config_file", "--config-file")):
        sizes = ()
    return _insert(command, end, sizes + where)


def deepspeed(
    command: tuple[str, ...], end: int, leader: str, port: str
) -> tuple[tuple[Value, ...], tuple[File, ...]]:
    """`deepspeed`, one per host and without ssh, as its `--no_ssh` is made for."""
    meeting: tuple[tuple[str, Value], ...] = (
        ("--master_addr", Host(leader)),
        ("--master_port", Port(leader, 0, port)),
    )
    if end == 0 or _has(command, end, _OWN_LAYOUT):
        return _insert(command, end, meeting), ()
    layout: tuple[tuple[str, Value], ...] = (
        ("--hostfile", FilePath(HOSTFILE)),
        ("--no_ssh", ""),
        ("--node_rank", HostIndex()),
    )
    hosts = File(HOSTFILE, Join((HostSlots(" slots="), ""), "\n"))
    return _insert(command, end, layout + meeting), (hosts,)


def _insert(command: tuple[str, ...], end: int, options: tuple[tuple[str, Value], ...]) -> tuple[Value, ...]:
    """The command with the options that it hasn't, behind the launcher's name; a shell script as it is."""
    if end == 0:
        return command
    added: tuple[Value, ...] = ()
    for option, value in options:
        if not _has(command, end, (option, option.replace("_", "-"))):
            added += (option, value) if value else (option,)
    return command[:end] + added + command[end:]


def _has(command: tuple[str, ...], end: int, options: tuple[str, ...]) -> bool:
    """Whether one of the options stands among the launcher's own, which end at the script."""
    for word in command[end:]:
        if word.endswith(".py"):
            return False
        if word.split("=", 1)[0] in options:
            return True
    return False
