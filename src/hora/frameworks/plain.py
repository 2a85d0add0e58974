"""plain: any program.  Number, world size and peers come in HORA_* variables, as under every framework."""

from __future__ import annotations

from hora.frameworks.base import in_order, launch_plan, role_plan

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hora.plan import LaunchPlan
    from hora.spec import JobSpec

name = "plain"


def plan(spec: JobSpec) -> LaunchPlan:
    return launch_plan(spec, tuple(role_plan(spec, role) for role in in_order(spec)))
