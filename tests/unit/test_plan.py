"""The plan: JSON both ways, and what each symbol becomes."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hora import plan as plans
from hora.plan import (
    LAUNCHER,
    MPIRUN,
    PER_HOST,
    STARTS,
    Attempt,
    EndRule,
    File,
    FilePath,
    Host,
    HostCount,
    HostIndex,
    HostPort,
    HostPorts,
    Hosts,
    HostSlots,
    Index,
    Interface,
    Join,
    Json,
    LaunchPlan,
    Limits,
    LocalRank,
    LocalWorld,
    Map,
    Numbers,
    PlanError,
    Port,
    Rank,
    RankInMember,
    Restarts,
    RolePlan,
    RunId,
    Scene,
    Seat,
    Size,
    Spot,
    Start,
    Threads,
    World,
    bracket,
    dumps,
    environment,
    from_data,
    loads,
    number,
    resolve,
    seats,
    served,
    starts,
    to_data,
)
from hora.record import replace

# --- every node, made up ----------------------------------------------------------------------------------

text = st.text(max_size=12)  # lone surrogates too: arguments that are not UTF-8 arrive so
small = st.integers(0, 99)
leaves = st.one_of(
    st.builds(Host, text, small),
    st.builds(Hosts, text),
    st.builds(Port, text, small, text),
    st.builds(HostPort, text, small, text),
    st.builds(HostPorts, text, text),
    *(
        st.builds(cls)
        for cls in (Rank, LocalRank, RankInMember, Index, World, LocalWorld, HostCount, HostIndex)
    ),
    st.builds(Size, text),
    st.builds(Interface, text, st.booleans()),
    st.builds(Threads),
    st.builds(RunId),
    st.builds(Attempt),
    st.builds(Restarts),
    st.builds(HostSlots, text),
    st.builds(FilePath, text),
)
scalars = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), text
)


def trees(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.recursive(
        st.one_of(scalars, values),
        lambda inner: st.one_of(
            st.lists(inner, max_size=3).map(tuple),
            st.builds(Map, st.lists(st.tuples(text, inner), max_size=3).map(tuple)),
        ),
        max_leaves=6,
    )


values = st.recursive(
    st.one_of(text, leaves),
    lambda inner: st.one_of(
        st.builds(Join, st.lists(inner, max_size=3).map(tuple), text), st.builds(Json, trees(inner))
    ),
    max_leaves=6,
)
pairs = st.lists(st.tuples(text, values), max_size=3).map(tuple)
words = st.lists(values, max_size=3).map(tuple)
names = st.lists(text, max_size=2).map(tuple)
files = st.builds(File, text, values, st.booleans())
roles = st.builds(
    RolePlan,
    name=text,
    replicas=small,
    command=words,
    ranks=small,
    start=st.sampled_from(STARTS),
    launcher=words,
    env=pairs,
    user_env=pairs,
    defaults=pairs,
    files=st.lists(files, max_size=2).map(tuple),
    ports=names,
    rank_ports=names,
    in_world=st.booleans(),
    cpus=st.none() | st.floats(0, 64),
    gpus=small,
)
seconds = st.none() | st.floats(0, 1e6)
launch_plans = st.builds(
    LaunchPlan,
    job=text,
    framework=text,
    roles=st.lists(roles, max_size=3).map(tuple),
    end=st.builds(EndRule, names),
    checks=names,
    limits=st.builds(Limits, seconds, seconds, seconds, seconds, st.floats(0, 1e6)),
    restarts=small,
    setup=names,
    stall=st.sampled_from(("report", "kill")),
    output=small,
    ports=st.tuples(small, small),
    interface=text,
)


def walk(node: Any) -> set[str]:
    """Names of all node classes in plain data."""
    if isinstance(node, dict):
        return {node["$"]}.union(*(walk(value) for value in node.values()))
    return set().union(*(walk(item) for item in node)) if isinstance(node, list) else set()


@settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(launch_plans)
def test_a_plan_comes_back_from_json_as_it_was(plan: LaunchPlan) -> None:
    assert loads(dumps(plan)) == plan
    assert hash(loads(dumps(plan))) == hash(plan)


@settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(values | trees(values) | files)
def test_every_node_comes_back_from_json_as_it_was(node: Any) -> None:
    assert from_data(json.loads(json.dumps(to_data(node)))) == node


def test_the_strategies_know_every_node() -> None:
    seen = set()
    for cls in plans._NODES.values():
        seen |= {cls.__name__} & set(globals())
    assert seen == set(plans._NODES)
    drawn: set[str] = set()

    @settings(max_examples=400, database=None, deadline=None, suppress_health_check=list(HealthCheck))
    @given(launch_plans)
    def draw(plan: LaunchPlan) -> None:
        drawn.update(walk(to_data(plan)))

    draw()
    assert drawn == set(plans._NODES)


# --- JSON that is not a plan of this version ----------------------------------------------------------------


def a_plan(*roles: RolePlan) -> LaunchPlan:
    return LaunchPlan("job", "plain", roles or (RolePlan("worker", 1, ("true",)),), EndRule(("worker",)))


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("{", "not a launch plan: Expecting"),
        ("[]", "plan version None is not 1"),
        ('"x"', "plan version None is not 1"),
        ('{"$":"LaunchPlan","version":2,"newField":{"$":"NewNode"}}', "plan version 2 is not 1"),
        ('{"$":"LaunchPlan","version":1}', "LaunchPlan needs job, framework"),
        ('{"$":"LaunchPlan","version":1,"colour":1}', "doesn't know LaunchPlan.colour"),
        ('{"$":"Plan","version":1}', "doesn't know the plan node 'Plan'"),
        ('{"$":["x"],"version":1}', "doesn't know the plan node"),
        ('{"$":"File","name":"a","content":"b","version":1}', "doesn't know File.version"),
    ],
)
def test_what_is_no_plan_is_refused_with_the_reason(text: str, what: str) -> None:
    with pytest.raises(PlanError, match=what):
        loads(text)


def test_a_node_of_another_kind_is_no_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    class LaunchPlanLike(EndRule):
        version: int = 1

    monkeypatch.setitem(plans._NODES, "LaunchPlanLike", LaunchPlanLike)
    with pytest.raises(PlanError, match="not a launch plan but a LaunchPlanLike"):
        loads('{"$":"LaunchPlanLike","decides":[],"version":1}')


@pytest.mark.parametrize("node", [{"a": 1}, {1}, b"x", object(), Spot("h", "a")])
def test_what_can_not_travel_is_refused(node: Any) -> None:
    with pytest.raises(PlanError, match="can't stand in a plan"):
        to_data(node)


def test_the_json_of_a_plan_does_not_grow_with_its_members() -> None:
    one, thousand = (
        dumps(a_plan(RolePlan("worker", count, (Rank(), Join((HostPorts("worker", "p"),), ",")))))
        for count in (1, 1000)
    )
    assert len(thousand) == len(one) + 3


# --- numbering ------------------------------------------------------------------------------------------


def scene_of(plan: LaunchPlan, hosts: dict[str, str] | None = None, **spot: Any) -> Scene:
    """Members on hosts of their own, or as `hosts` says; ports 1000, 1001, ... in order."""
    spots = {}
    for role in plan.roles:
        for index in range(role.replicas):
            member = f"{role.name}-{index}"
            host = (hosts or {}).get(member, member)
            ports = tuple((name, 1000 * (index + 1) + at) for at, name in enumerate(role.port_names))
            spots[member] = Spot(host, f"ip.{host}", ports=ports, **spot)
    return Scene(plan, "ab12c", 3, spots)


def test_ranks_are_numbered_over_members_and_hosts() -> None:
    plan = a_plan(RolePlan("worker", 3, ("true",), ranks=2))
    numbers = number(scene_of(plan, {"worker-0": "a", "worker-1": "b", "worker-2": "a"}))
    assert [seat.label for seat in numbers] == [
        "worker-0/0", "worker-0/1", "worker-1/0", "worker-1/1", "worker-2/0", "worker-2/1",
    ]  # fmt: skip
    assert list(numbers.values()) == [
        Numbers(0, 0, 4, 0, 2, 6),
        Numbers(1, 1, 4, 0, 2, 6),
        Numbers(2, 0, 2, 1, 2, 6),
        Numbers(3, 1, 2, 1, 2, 6),
        Numbers(4, 2, 4, 0, 2, 6),
        Numbers(5, 3, 4, 0, 2, 6),
    ]
    assert plan.world == 6


def test_roles_outside_the_world_are_numbered_by_themselves() -> None:
    plan = a_plan(
        RolePlan("chief", 1, ("true",)),
        RolePlan("ps", 2, ("true",), in_world=False),
        RolePlan("worker", 2, ("true",)),
    )
    ranks = {seat.label: (n.rank, n.world) for seat, n in number(scene_of(plan)).items()}
    assert ranks == {
        "chief-0/0": (0, 3), "worker-0/0": (1, 3), "worker-1/0": (2, 3), "ps-0/0": (0, 2), "ps-1/0": (1, 2),
    }  # fmt: skip
    assert plan.world == 3


@given(
    st.lists(st.tuples(st.integers(0, 4), st.integers(1, 3), st.booleans()), min_size=1, max_size=3),
    st.data(),
)
def test_the_numbers_of_each_group_are_complete(
    shape: list[tuple[int, int, bool]], data: st.DataObject
) -> None:
    plan = a_plan(
        *(
            RolePlan(f"r{at}", count, ("x",), ranks, in_world=inside)
            for at, (count, ranks, inside) in enumerate(shape)
        )
    )
    hosts = {
        f"{r.name}-{i}": data.draw(st.sampled_from("abc")) for r in plan.roles for i in range(r.replicas)
    }
    numbered = number(scene_of(plan, hosts))
    assert set(numbered) == set(seats(plan))
    inside = [n for seat, n in numbered.items() if plan.role(seat.role).in_world]
    assert [n.rank for n in inside] == list(range(plan.world))
    for n in inside:
        on_host = sorted(other.local for other in inside if other.host_index == n.host_index)
        assert on_host == list(range(n.local_world)) and n.host_index < n.host_count and n.world == plan.world


# --- symbols --------------------------------------------------------------------------------------------

WORKERS = RolePlan(
    "worker", 2, ("true",), ranks=2, ports=("tf",), rank_ports=("peer",), files=(File("hosts", "x"),)
)
SCENE = Scene(
    a_plan(WORKERS),
    "ab12c",
    3,
    {
        "worker-0": Spot(
            "a", "10.0.0.1", "eth0", 4, (("tf", 100), ("peer/0", 101), ("peer/1", 102)), "/run/a"
        ),
        "worker-1": Spot("b", "fd00::2", "lo", 2, (("tf", 200), ("peer/0", 201), ("peer/1", 202)), "/run/b"),
    },
)


def text_of(value: Any, seat: Seat = Seat("worker", 1, 1), scene: Scene = SCENE) -> str:
    return resolve(value, scene, seat, number(scene)[seat])


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("as $it is", "as $it is"),
        (Host("worker"), "10.0.0.1"),
        (Host("worker", 1), "fd00::2"),
        (Join((Hosts("worker"),), ","), "10.0.0.1,fd00::2"),
        (Port("worker", 1, "tf"), "200"),
        (Port("worker", 0, "peer/1"), "102"),
        (HostPort("worker", 0, "tf"), "10.0.0.1:100"),
        (HostPort("worker", 1, "tf"), "[fd00::2]:200"),
        (Join((HostPorts("worker", "tf"),), " "), "10.0.0.1:100 [fd00::2]:200"),
        (Join((HostPorts("worker", "peer"),), ","), "10.0.0.1:101,10.0.0.1:102,[fd00::2]:201,[fd00::2]:202"),
        (Rank(), "3"),
        (LocalRank(), "1"),
        (RankInMember(), "1"),
        (Index(), "1"),
        (World(), "4"),
        (LocalWorld(), "2"),
        (HostCount(), "2"),
        (HostIndex(), "1"),
        (Size("worker"), "2"),
        (Threads(), "2"),
        (RunId(), "ab12c"),
        (Attempt(), "3"),
        (Restarts(), "2"),
        (Interface(), "lo"),
        (Interface("="), "=lo"),
        (Interface("=", loopback=False), ""),
        (Join((HostSlots(),), "\n"), "10.0.0.1 2\nfd00::2 2"),
        (Join((HostSlots(" slots="), ""), "\n"), "10.0.0.1 slots=2\nfd00::2 slots=2\n"),
        (FilePath("hosts"), "/run/b/hosts"),
        (Join(("rank", Rank(), Join(("of", World()), "-")), "/"), "rank/3/of-4"),
        (Join(()), ""),
        (Json(Rank()), "3"),
        (
            Json(Map((
                ("cluster", Map((("worker", HostPorts("worker", "tf")),))),
                ("task", (Index(), None, True, 1.5, Join(("i", Index())))),
            ))),
            '{"cluster": {"worker": ["10.0.0.1:100", "[fd00::2]:200"]}, "task": [1, null, true, 1.5, "i1"]}',
        ),
    ],
)  # fmt: skip
def test_a_symbol_becomes_its_text(value: Any, text: str) -> None:
    assert text_of(value) == text


def test_an_interface_that_reaches_peers_gets_its_prefix_and_an_unknown_one_is_empty() -> None:
    assert text_of(Interface("=", loopback=False), Seat("worker", 0)) == "=eth0"
    unknown = replace(SCENE, spots={name: replace(spot, interface="") for name, spot in SCENE.spots.items()})
    assert text_of(Interface("="), scene=unknown) == ""


@pytest.mark.parametrize(
    ("value", "what"),
    [
        (Host("ps"), "names ps-0, which has no host"),
        (Host("worker", 2), "names worker-2, which has no host"),
        (Port("worker", 0, "http"), "worker-0 has no port 'http'"),
        (HostPorts("worker", "http"), "worker-0 has no port 'http'"),
        (Hosts("ps"), "has no role 'ps'; it has worker"),
        (Size("ps"), "has no role 'ps'"),
        (Hosts("worker"), "Hosts is a list"),
        (HostPorts("worker", "tf"), "HostPorts is a list"),
        (HostSlots(), "HostSlots is a list"),
        (Map(()), "Map can't be resolved"),
        (3, "int can't be resolved"),
    ],
)
def test_a_symbol_without_an_answer_is_an_error_that_names_it(value: Any, what: str) -> None:
    with pytest.raises(PlanError, match=what):
        text_of(value)


def test_only_ipv6_addresses_get_brackets() -> None:
    assert [bracket(a) for a in ("10.0.0.1", "::1", "host.name")] == ["10.0.0.1", "[::1]", "host.name"]


# --- processes ------------------------------------------------------------------------------------------


def test_each_rank_is_told_where_it_is() -> None:
    start = starts(SCENE)[Seat("worker", 1, 1)]
    assert dict(start.env) == {
        "HORA_RUN": "ab12c",
        "HORA_ATTEMPT": "3",
        "HORA_ROLE": "worker",
        "HORA_MEMBER": "worker-1",
        "HORA_MEMBER_INDEX": "1",
        "HORA_RANK": "3",
        "HORA_WORLD_SIZE": "4",
        "HORA_LOCAL_RANK": "1",
        "HORA_LOCAL_WORLD_SIZE": "2",
        "HORA_HOST_INDEX": "1",
        "HORA_HOST_COUNT": "2",
        "HORA_HOST": "fd00::2",
        "HORA_INTERFACE": "lo",
        "HORA_PORT_TF": "200",
        "HORA_PORT_PEER": "202",
    }
    assert start.argv == ("true",)
    assert start.files == (("hosts", "x", False),)


def test_port_names_become_variable_names() -> None:
    plan = a_plan(RolePlan("worker", 1, ("true",), ports=("tensor-board",)))
    assert dict(starts(scene_of(plan))[Seat("worker", 0)].env)["HORA_PORT_TENSOR_BOARD"] == "1000"


def test_the_user_wins_over_the_framework_and_both_over_the_host() -> None:
    role = RolePlan(
        "worker",
        1,
        ("true",),
        env=(("RANK", Rank()), ("MASTER_PORT", "1")),
        user_env=(("MASTER_PORT", "2"), ("OMP_NUM_THREADS", "9"), ("MINE", "$HOME")),
        defaults=(
            ("OMP_NUM_THREADS", Threads()), ("IFACE", Interface()), ("NEW", "1"),
            ("MPI_IFACE", Interface(loopback=False)),
        ),
    )  # fmt: skip
    start = starts(scene_of(a_plan(role)))[Seat("worker", 0)]
    assert start.defaults == (("IFACE", "lo"), ("NEW", "1")), "what is empty or set by the user is no default"
    host = {
        "RANK": "7",
        "IFACE": "eth7",
        "PATH": "/bin",
        "HORA_RANK": "5",
        "HORA_PORT_OLD": "1",
        "HORA_PEERS_X": "y",
    }
    env = environment(start, {**host, "HORA_AGENT_SOCKET": "/old", "HORA_HOME": "/kept"})
    shown = (
        "RANK",
        "MASTER_PORT",
        "OMP_NUM_THREADS",
        "MINE",
        "IFACE",
        "NEW",
        "PATH",
        "HORA_RANK",
        "HORA_HOME",
    )
    assert {name: env[name] for name in shown} == {
        "RANK": "0", "MASTER_PORT": "2", "OMP_NUM_THREADS": "9", "MINE": "$HOME", "IFACE": "eth7", "NEW": "1",
        "PATH": "/bin", "HORA_RANK": "0", "HORA_HOME": "/kept",
    }  # fmt: skip
    assert not {"HORA_PORT_OLD", "HORA_PEERS_X", "HORA_AGENT_SOCKET"} & set(env)


def test_one_process_per_host_is_the_first_of_its_members_and_has_no_rank() -> None:
    plan = a_plan(RolePlan("worker", 4, ("torchrun", HostIndex(), LocalWorld()), start=PER_HOST))
    ready = starts(scene_of(plan, {"worker-0": "a", "worker-1": "a", "worker-2": "b", "worker-3": "b"}))
    assert {seat.label: start.argv for seat, start in ready.items()} == {
        "worker-0/0": ("torchrun", "0", "2"),
        "worker-2/0": ("torchrun", "1", "2"),
    }
    assert "HORA_RANK" not in dict(ready[Seat("worker", 0)].env)
    assert dict(ready[Seat("worker", 2)].env)["HORA_WORLD_SIZE"] == "4"


def test_a_launcher_is_one_process_and_its_ranks_are_served() -> None:
    role = RolePlan("worker", 2, ("train", Rank()), start=MPIRUN, launcher=("mpirun", World()))
    scene = scene_of(a_plan(role, replace(role, name="ps", in_world=False, start="spawn")))
    ready = starts(scene)
    launcher = ready[Seat("worker", 0, LAUNCHER)]
    assert [seat.label for seat in ready] == ["worker-0/launcher", "ps-0/0", "ps-1/0"]
    assert launcher.argv == ("mpirun", "2") and "HORA_RANK" not in dict(launcher.env)
    ranks = served(scene)
    assert {seat.label: start.argv for seat, start in ranks.items()} == {
        "worker-0/0": ("train", "0"),
        "worker-1/0": ("train", "1"),
    }
    assert dict(ranks[Seat("worker", 1)].env)["HORA_RANK"] == "1"


def test_a_launcher_outside_the_world_speaks_for_the_world() -> None:
    plan = a_plan(
        RolePlan(
            "launcher",
            1,
            (),
            ranks=0,
            start=MPIRUN,
            launcher=("mpirun", World(), HostCount()),
            in_world=False,
        ),
        RolePlan("worker", 3, (), ranks=2, start=MPIRUN),
    )
    scene = scene_of(plan)
    assert [(seat.label, start.argv) for seat, start in starts(scene).items()] == [
        ("launcher-0/launcher", ("mpirun", "6", "3"))
    ]
    assert served(scene) == {}


def test_a_peer_list_that_no_variable_can_hold_is_left_out() -> None:
    peers = Join((HostPorts("worker", "peer"),), ",")

    def shown(count: int) -> Start:
        role = RolePlan(
            "worker", count, ("true",), rank_ports=("peer",), env=(("HORA_PEERS", peers), ("ALL", "x"))
        )
        scene = scene_of(a_plan(role), {f"worker-{index}": f"{index:020}" for index in range(count)})
        return starts(scene)[Seat("worker", 0)]

    assert len(dict(shown(1000).env)["HORA_PEERS"].split(",")) == 1000
    assert "HORA_PEERS" not in dict(shown(6000).env)
    assert dict(shown(6000).env)["ALL"] == "x"


def test_a_thousand_members_are_ready_within_half_a_second() -> None:
    role = RolePlan(
        "worker",
        1000,
        ("python", "train.py", Rank()),
        rank_ports=("peer",),
        env=(
            ("HORA_PEERS", Join((HostPorts("worker", "peer"),), ",")), ("RANK", Rank()),
            ("MASTER_ADDR", Host("worker")),
        ),
        defaults=(("OMP_NUM_THREADS", Threads()), ("NCCL_SOCKET_IFNAME", Interface("="))),
    )  # fmt: skip
    scene = scene_of(a_plan(role))
    began = time.process_time()
    ready = starts(scene)
    took = time.process_time() - began
    assert len(ready) == 1000 and took < 0.5
