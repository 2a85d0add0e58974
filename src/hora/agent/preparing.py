"""Before the ranks of an attempt: ports, the code, what the hosts are compared by, the set-up."""

from __future__ import annotations

import os

from hora import state
from hora.agent import facts
from hora.agent.code import Code
from hora.agent.ports import NoPort, Ports

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, Optional

    from hora.agent.frames import Header

SET_UP = "set-up"  # file: for which number of the code the set-up command has done its work here


class Preparing:
    def __init__(self, agent: Any) -> None:
        self.agent = agent
        config = agent.config
        self.code = Code(
            agent.errands, agent.reply, os.path.join(agent.folder, "code"), config.get("code", "")
        )
        self.ports = Ports(tuple(config.get("ports", (0, 0))))
        self._waiting: Optional[Header] = None  # an attempt that begins when nothing is left of the last one

    @property
    def cwd(self) -> str:
        """Where ranks start."""
        cwd: str = self.agent.cwd
        return self.code.folder or cwd

    def environment(self, env: Dict[str, str]) -> Dict[str, str]:
        """What lies in the code's folder can be imported, wherever the script is."""
        if not self.code.folder:
            return {}
        old = env.get("PYTHONPATH")
        return {"PYTHONPATH": self.code.folder + (os.pathsep + old if old else "")}

    # --- a new attempt ---

    def prepare(self, header: Header) -> None:
        """Ports are chosen here and kept bound until the ranks start."""
        agent = self.agent
        if agent.ranks.alive:  # the lead had given this host up, and its ranks with it
            self._waiting = header
            agent.ranks.kill()
            return
        agent.begin(header["attempt"])
        self.ports.release()
        told: Dict[str, Any] = {"attempt": header["attempt"], "ports": {}, "threads": facts.quick()["cpus"]}
        try:
            for member, names in header["ports"].items():
                told["ports"][member] = {name: self.ports.take() for name in names}
            told["address"] = self._address(header)
            told["folder"] = os.path.join(agent.folder, "files")
            told["interface"] = facts.interface_of(told["address"])
        except (OSError, NoPort) as problem:
            told["problem"] = str(problem)
        self.code.prepare(header.get("code"), lambda problem: self._with_code(header, told, problem))

    def forget(self) -> None:
        """The attempt that waits to begin shall not."""
        self._waiting = None

    def go_on(self) -> None:
        """Nothing is left of the last attempt."""
        if self._waiting is not None:
            header, self._waiting = self._waiting, None
            self.prepare(header)

    def _with_code(self, header: Header, told: Dict[str, Any], problem: str) -> None:
        agent = self.agent
        if agent.attempt != header["attempt"]:
            return  # the lead wants another one by now
        if problem:
            told.setdefault("problem", problem)
        told["code"] = self.code.hash
        told["setup"] = self._set_up() == str(self.code.number)
        if header["checks"] and not header["alone"]:
            agent.checks.facts(header["checks"], lambda found: agent.tell("prepared", facts=found, **told))
        else:
            agent.tell("prepared", **told)

    def _address(self, header: Header) -> str:
        """Where peers reach this host: as the place says, else as this host reaches the lead."""
        if header.get("alone"):
            return "127.0.0.1"
        config = self.agent.config
        if config.get("address"):
            return str(config["address"])
        own = self.agent.uplink.own_address
        if own is None or facts.loopback(own):  # peers that are told such an address hang
            raise OSError(
                f"it reaches the lead at {own or 'no address'}, where no other host reaches it: "
                "give the lead an address that all hosts can reach"
            )
        return str(own)

    # --- the set-up: once a host, and again after new code ---

    def _set_up(self) -> str:
        try:
            with open(os.path.join(self.agent.folder, SET_UP), encoding="ascii") as file:
                return file.read()
        except OSError:
            return ""

    def heard(self, kind: str, values: Dict[str, Any]) -> None:
        """An event that the agent tells."""
        if kind == "exit" and values["label"].startswith(state.SETUP) and values["code"] == 0:
            try:
                with open(os.path.join(self.agent.folder, SET_UP), "w", encoding="ascii") as file:
                    file.write(str(self.code.number))
            except OSError:
                pass  # then it is done once more, should there be another attempt
