"""`scripts/cluster …`: the command line."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from cluster.kube import build, certificates, cluster, disks, images, layout, machine, recipe
from cluster.kube.problems import ClusterError
from cluster.kube.versions import MPI_OPERATOR


def main(words: list[str]) -> int:
    try:
        if words[:1] == ["kubectl"]:  # all that follows is kubectl's
            kubectl(words[1:])
        options = parser().parse_args(words)
        if reason := machine.forbidden():
            raise ClusterError(reason)
        return int(options.action(options) or 0)
    except ClusterError as problem:
        print(f"cluster: {problem}", file=sys.stderr)
        return 1


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(
        prog="scripts/cluster", description="A real Kubernetes of two nodes, for the tests."
    )
    commands = top.add_subparsers(required=True, metavar="COMMAND")

    def command(
        name: str, action: Callable[[argparse.Namespace], object], text: str
    ) -> argparse.ArgumentParser:
        added = commands.add_parser(name, help=text, description=text)
        added.set_defaults(action=action)
        return added

    command("up", up, "start it (build it first, if need be) and print the path of its kubeconfig")
    command("down", down, "end it, and remove all that it left on the machine")
    command("status", status, "one line for each part")
    command("kubeconfig", kubeconfig, "print the path of the administrator's kubeconfig")
    command("kubectl", status, "kubectl, as the administrator")
    building = command("build", make, "build what is not built: programs, images, disks of the nodes")
    building.add_argument(
        "--peers", action="store_true", help="also what Hora is measured against: the MPI Operator"
    )
    listing = command("images", show_images, "list the images; import archives of more")
    listing.add_argument("archives", nargs="*", type=Path, metavar="FILE", help="as `docker save` writes it")
    listing.add_argument(
        "--archive",
        action="store_true",
        help="print the file with the test images, to load into another cluster",
    )
    user = command("user", make_user, "print the path of a kubeconfig for a user without any right")
    user.add_argument("name")
    user.add_argument("--group", action="append", default=[], help="one that the user is in; may be repeated")
    user.add_argument("--namespace", default="default", help="where kubectl looks when not told")
    node = command(
        "node", at_node, "node two kill: a power cut; start: power comes back; exec: run a command there"
    )
    node.add_argument("node", choices=list(layout.NODES))
    node.add_argument("do", choices=["kill", "start", "exec"])
    node.add_argument("words", nargs=argparse.REMAINDER, metavar="COMMAND", help="of exec")
    server = command("apiserver", at_api_server, "stop or start the API server, as in an outage")
    server.add_argument("do", choices=["stop", "start"])
    return top


def up(_options: argparse.Namespace) -> None:
    before, seconds = cluster.up()
    cluster.keep()
    build.say("is up already" if before else f"up in {seconds:.1f} s")
    print(layout.KUBECONFIG)


def down(_options: argparse.Namespace) -> None:
    build.say("down" if cluster.down() else "was not up")


def status(_options: argparse.Namespace) -> int:
    print("\n".join(cluster.status()))
    return 0 if cluster.is_up() else 1


def need_cluster() -> None:
    if not layout.KUBECONFIG.exists():
        raise ClusterError("the cluster is not up: scripts/cluster up")


def kubeconfig(_options: argparse.Namespace) -> None:
    need_cluster()
    print(layout.KUBECONFIG)


def kubectl(words: list[str]) -> NoReturn:
    need_cluster()
    program = build.binary("kubectl")
    os.execve(program, [str(program), *words], cluster.kubectl_environment())


def make(options: argparse.Namespace) -> None:
    cluster.make(options.peers)
    if options.peers:
        print(layout.FOLDER / MPI_OPERATOR.key / "mpi-operator")


def show_images(options: argparse.Namespace) -> None:
    cluster.make()
    if options.archive:
        print(images.archive())
        return
    with build.lock("cluster"):
        for archive in options.archives:
            for node in cluster.nodes():
                disks.import_archive(node, archive.absolute())
    running = [node for node in cluster.nodes() if node.pid()]
    names = (
        disks.references(running[0])
        if running
        else [*(image.reference for image in recipe.IMAGES), recipe.PAUSE]
    )
    print("\n".join(names))


def make_user(options: argparse.Namespace) -> None:
    print(certificates.user(options.name, options.group, options.namespace))


def at_node(options: argparse.Namespace) -> int:
    if options.do == "exec":
        return cluster.run_in_node(options.node, options.words or ["sh"])
    (cluster.kill_node if options.do == "kill" else cluster.start_node)(options.node)
    return 0


def at_api_server(options: argparse.Namespace) -> None:
    (cluster.stop_api_server if options.do == "stop" else cluster.start_api_server)()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
