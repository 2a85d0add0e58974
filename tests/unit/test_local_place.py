"""Runs on this machine: how they are found, begun, kept and forgotten."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest

import hora
from helpers.runs import wait_until
from hora.errors import LeadGone, PlaceError, RunNotFound, UsageError
from hora.places.local.place import RUN, LocalPlace, is_locked
from hora.record import replace

pytestmark = pytest.mark.leaks


def submit(*command: str, **keys: object) -> hora.Run:
    return hora.submit(hora.Job(command=list(command), **{"name": "short", **keys}))  # type: ignore[arg-type]


def ended(*command: str, **keys: object) -> hora.Run:
    run = submit(*command, **keys)
    run.wait(check=False)
    return run


def tidied(run: hora.Run) -> Path:
    """The run's folder, once its keeper has left, which is right after the verdict."""
    folder = LocalPlace().folder(run.id)
    wait_until(lambda: not is_locked(folder), "the keeper has left")
    return Path(folder)


def test_a_run_that_has_just_been_started_can_be_stopped_at_once() -> None:
    run = submit("sleep", "600")
    run.stop()
    assert run.wait(timeout=20, check=False).phase == "stopped"


def test_a_run_that_has_just_ended_can_be_deleted_at_once() -> None:
    run = submit("true")
    run.wait()
    run.delete()
    assert hora.list_runs() == []


def test_a_living_run_is_not_deleted() -> None:
    run = submit("sleep", "600")
    with pytest.raises(UsageError, match=f"still going on: `hora stop {run.id}` first"):
        run.delete()
    run.stop(kill=True)
    run.wait(timeout=20, check=False)


def test_an_ended_run_has_no_lead() -> None:
    run = ended("true")
    tidied(run)
    with pytest.raises(LeadGone, match="has ended"):
        run.connect()


def test_a_run_is_found_by_id_by_its_beginning_by_folder_and_by_the_jobs_name() -> None:
    place, first = LocalPlace(), ended("true", name="digits")
    second = ended("true", name="digits")
    assert place.find(first.id) == first.id
    assert place.find(f"digits-{first.id}") == first.id
    assert place.find("digits") == second.id  # the newest
    length = next(n for n in range(1, 6) if first.id[:n] != second.id[:n])
    assert place.find(first.id[:length]) == first.id


def test_a_beginning_that_fits_several_runs_is_refused_with_their_ids() -> None:
    place, runs = LocalPlace(), [ended("true").id, ended("true").id]
    for run, new in zip(runs, ("bcdfg", "bcdfh")):
        folder = Path(place.folder(run))
        (folder / RUN).write_text((folder / RUN).read_text().replace(run, new))
    with pytest.raises(UsageError, match="'bcdf' is the beginning of bcdfg, bcdfh: say more"):
        place.find("bcdf")


def test_an_unknown_run_is_one_sentence_that_names_the_newest() -> None:
    run = ended("true")
    with pytest.raises(RunNotFound, match=f"no run 'nothing' on this machine; the newest are {run.id}"):
        LocalPlace().find("nothing")


def test_what_is_kept_is_for_its_owner_alone() -> None:
    run = ended("sh", "-c", "echo secret")
    folder = LocalPlace().folder(run.id)
    assert stat.S_IMODE(os.stat(folder).st_mode) == 0o700


def test_a_secret_that_is_not_set_is_said_before_anything_is_made() -> None:
    job = hora.Job(command=["true"], secrets={"TOKEN": {"env": "NOT_SET_HERE"}})
    with pytest.raises(UsageError, match=r"secrets\.TOKEN: the variable NOT_SET_HERE is not set here"):
        hora.submit(job)
    assert hora.list_runs() == []


def test_secrets_reach_the_ranks_and_no_file(monkeypatch: pytest.MonkeyPatch, work: Path) -> None:
    monkeypatch.setenv("MINE", "secret-from-env")
    (work / "token").write_text("secret-from-file\n")
    run = ended(
        "sh",
        "-c",
        'test "$A" = "$(echo frperg-sebz-rai | tr a-z n-za-m)" && test ${#B} = 16',
        secrets={"A": {"env": "MINE"}, "B": {"file": str(work / "token")}},
    )
    assert run.status().phase == "succeeded"
    for path in Path(LocalPlace().folder(run.id)).rglob("*"):
        assert path.is_dir() or b"secret-from" not in path.read_bytes(), path


def test_a_kubernetes_secret_says_how_to_give_it_here() -> None:
    job = hora.Job(command=["true"], secrets={"TOKEN": {"secret": "mine", "key": "token"}})
    with pytest.raises(UsageError, match="--secret TOKEN=env:VARIABLE or --secret TOKEN=file:PATH"):
        hora.submit(job)


def test_a_status_whose_processes_are_all_gone_tells_a_failure() -> None:
    """As after a reboot: the last status says running, nobody lives."""
    run = ended("true")
    folder = tidied(run)
    stale = replace(run.status(), phase="running", exit_code=None, origin=None)
    (folder / "status.json").write_text(json.dumps(stale.to_json()))
    found = run.status()
    assert (found.phase, found.exit_code, found.origin) == ("failed", 125, "hora")
    assert "its processes are gone without a verdict" in found.reason


def test_a_folder_without_a_run_is_passed_over() -> None:
    run = ended("true")
    runs = Path(LocalPlace().folder(run.id)).parent
    (runs / "junk").mkdir()
    (runs / "half").mkdir()
    (runs / "half" / RUN).write_text("{")
    assert [status.id for status in hora.list_runs()] == [run.id]


def test_what_render_shows_is_the_plan_that_runs() -> None:
    job = hora.Job(command=["true"], workers=3, name="short")
    shown = json.loads(LocalPlace().render(job.submission()))
    run = hora.submit(job)
    run.wait()
    kept = json.loads((Path(LocalPlace().folder(run.id)) / "plan.json").read_text())
    assert shown == kept
    assert shown["roles"][0]["replicas"] == 3


def test_a_keeper_that_can_not_begin_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    from hora.places.local import place, warm

    monkeypatch.setattr(warm, "_CODE", "import sys; sys.stdin.read(); sys.exit(1)  # {place!r} {owner}")
    monkeypatch.setattr(place, "BEGIN_LIMIT", 0.3)
    with pytest.raises(PlaceError, match=r"run \w{5} did not begin: see .*hora\.log"):
        submit("true")


def test_many_runs_leave_no_zombie() -> None:
    from hora.places.local import warm

    for _ in range(3):
        ended("true")

    def all_reaped() -> bool:
        warm.reap()
        return not warm._begun

    wait_until(all_reaped, "the keepers are gone")
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)
