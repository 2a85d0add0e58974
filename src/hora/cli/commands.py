"""Every command and every option, declared once."""

from __future__ import annotations

from hora.cli.words import Argument, Command, Option
from hora.load.flags import FLAGS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hora.load.flags import Flag

GROUPS = ("Run", "Look", "Inside", "Prepare", "Admin")

ON = (
    Option(("--on",), "The place: where runs live.", "PLACE", complete="places"),
    Option(("--context",), "The cluster, by its context in the kubeconfig.", "NAME"),
    Option(("--namespace",), "The namespace of the cluster; the context's where absent.", "NAME"),
)
RUN = Argument("RUN", "A run's id, its beginning, or a job's name: its newest run.", complete="runs")
ANY_RUN = Argument("RUN", "As above; the newest run where absent.", needed=False, complete="runs")
RUNS = Argument("RUN", "Ids or names of runs.", needed=False, many=True, complete="runs")
RANK = Option(("--rank",), "A rank: its global number, or a label such as worker-1/0.", "N")
RANKS = Option(
    ("--rank",), "Only this rank: its global number, or worker-1/0. May be repeated.", "N", many=True
)
TIMESTAMPS = Option(("--timestamps",), "Begin every line with the time (UTC) at which it was written.")
NO_PREFIX = Option(("--no-prefix",), "Leave out `worker-0/0 | `: the bytes as the ranks wrote them.")
QUIET = Option(("-q", "--quiet"), "Say nothing on stderr but what went wrong.")
KILL = Option(("--kill",), "Kill the ranks at once, without SIGTERM and timeouts.grace before it.")


def form(*allowed: str) -> Option:
    return Option(("-o", "--output"), "Form of the result.", "|".join(allowed), allowed=allowed)


def flag_option(flag: Flag) -> Option:
    """A key of the job file that has a flag of its own."""
    many = flag.field in ("env", "secrets", "timeouts", "services")
    allowed = tuple(flag.value.split("|")) if flag.field == "stall" else ()
    complete = {"code": "folders", "framework": "frameworks"}.get(flag.field, "")
    text = flag.help + (" May be repeated." if many else "")
    return Option((flag.option,), text, flag.value, many, allowed, complete)


JOB = (
    Option(("-n", "--ranks"), "Ranks in all, as for mpirun: workers times ranks per worker.", "N"),
    *(flag_option(flag) for flag in FLAGS),
    Option(("--set",), "Any key of the job file, such as placement.nodeSelector.disk=nvme. May be repeated.",
           "KEY=VALUE", many=True),
    *ON,
)  # fmt: skip
JOB_ARGUMENTS = (
    Argument("JOB.yaml", "A job file.", needed=False, complete="files", job_file=True),
    Argument(
        "COMMAND", "What every rank runs, with its arguments.", needed=False, complete="commands", rest=True
    ),
)

COMMANDS = (
    Command(
        "run", "Run", "Start a job, show its output, end with its exit code", "hora.cli.run:run",
        "All words after the command belong to it. Ctrl-C stops the run, twice kills it.\n"
        "Exit code: the job's own; 2 usage or job file, 124 a time-out, 125 Hora or the place failed, "
        "128 + signal, 129 the terminal was closed, 130 Ctrl-C, 141 nobody reads the output any more.",
        JOB_ARGUMENTS,
        (
            *JOB,
            Option(("-d", "--detach"), "Print the run's id and let it go on without this terminal."),
            Option(("--dry-run",), "Print what would be started, and start nothing."),
            TIMESTAMPS, NO_PREFIX, QUIET, form("json", "yaml"),
        ),
        ("hora run -n 2 python train.py --lr 1", "hora run job.yaml -n 8 --env LR=0.2 --detach"),
    ),
    Command(
        "stop", "Run", "End runs: SIGTERM to every rank, SIGKILL after timeouts.grace", "hora.cli.ending:stop",
        "Waits until the runs have ended. Without RUN: the newest run, if it is the only one that goes on.",
        (RUNS,),
        (KILL, Option(("-a", "--all"), "All runs that go on."), *ON, QUIET),
        ("hora stop digits", "hora stop --all --kill"),
    ),
    Command(
        "rm", "Run", "Forget ended runs, and their output", "hora.cli.ending:rm",
        "A run that still goes on is refused.",
        (RUNS,),
        (Option(("-a", "--all", "--ended"), "All runs that have ended."), *ON, QUIET),
        ("hora rm digits", "hora rm --ended"),
    ),
    Command(
        "wait", "Run", "Wait for the end of a run, and end with its exit code", "hora.cli.ending:wait",
        "",
        (ANY_RUN,),
        (Option(("--timeout",), "Give up after this time, with exit code 124; the run goes on.", "DURATION"),
         *ON, QUIET, form("json", "yaml")),
        ("hora wait digits", "hora wait k3f9x --timeout 10m"),
    ),
    Command(
        "ps", "Look", "List runs, the newest last", "hora.cli.look:ps",
        "",
        (),
        (Option(("-r", "--running"), "Only runs that go on."), *ON, form("json", "yaml", "wide")),
        ("hora ps", "hora ps --running -o json"),
    ),
    Command(
        "status", "Look", "Say in one sentence what a run waits for or why it failed",
        "hora.cli.look:status",
        "",
        (ANY_RUN,),
        (*ON, form("json", "yaml", "wide")),
        ("hora status digits", "hora why"),
        ("why",),
    ),
    Command(
        "logs", "Look", "Show what the ranks wrote, during the run and after it", "hora.cli.logs:logs",
        "",
        (ANY_RUN,),
        (
            Option(("-f", "--follow"), "Go on until the run has ended."),
            Option(("--tail",), "Only the last N lines of each rank.", "N"),
            Option(("--since",), "Only what was written since then: 10m, 1h30m, or 2026-01-31T12:00:00Z.", "TIME"),
            RANKS, TIMESTAMPS, NO_PREFIX, *ON,
        ),
        ("hora logs digits -f", "hora logs k3f9x --rank 2 --tail 20"),
    ),
    Command(
        "stacks", "Look", "Show where each rank is just now, equal stacks together",
        "hora.cli.inside:stacks",
        "The odd one out comes first. Asking never ends a rank.",
        (ANY_RUN,),
        (RANKS, *ON, form("json", "yaml")),
        ("hora stacks digits", "hora stacks --rank 2"),
    ),
    Command(
        "shell", "Inside", "Open a shell beside a rank, with its environment and folder",
        "hora.cli.inside:shell",
        "",
        (RUN, Argument("RANK", "The rank, as a global number or worker-1/0; the first where absent.",
                       needed=False)),
        ON,
        ("hora shell digits", "hora goto digits 2"),
        ("goto",),
    ),
    Command(
        "exec", "Inside", "Run a command beside a rank, with its environment and folder",
        "hora.cli.inside:execute",
        "Ends with the exit code of the command; with --all, of the first that failed.",
        (RUN, Argument("CMD", "The command and its arguments.", rest=True)),
        (RANK, Option(("-a", "--all"), "Beside every rank, each line with the rank's label."), *ON),
        ("hora exec digits --rank 1 -- env", "hora exec digits --all -- nvidia-smi -L"),
    ),
    Command(
        "open", "Look", "Reach a port beside a rank from this computer", "hora.cli.opening:open_ports",
        "A web page that a rank serves, such as TensorBoard's, is then at http://127.0.0.1:PORT. Goes on until the "
        "run has ended (exit code 0) or Ctrl-C (130); finds its way again when the connection breaks.",
        (RUN, Argument("[RANK:]PORT", "A port beside a rank, the first where none is named: 6006, 2:6006, "
                       "worker-1/0:6006.", many=True)),
        (Option(("--port",), "The port here; the same where absent, or any if that is taken.", "LOCAL"), *ON, QUIET),
        ("hora open digits 6006", "hora open digits 2:8888 --port 9000"),
    ),
    Command(
        "cp", "Inside", "Copy files and folders from and to the side of a rank", "hora.cli.copying:copy",
        "By the rules of cp -r: into TARGET if it is a folder, else as TARGET; SOURCE/. is what is in it. A relative "
        "path begins in the rank's folder. Permissions, times and links are kept; no tool is needed beside the rank. "
        "A file here whose name has a colon: ./a:b.",
        (Argument("SOURCE", "A path here, or RUN:PATH, or RUN:RANK:PATH.", complete="copies"),
         Argument("TARGET", "The same; one of the two is beside a rank.", complete="copies")),
        (RANK, *ON, QUIET),
        ("hora cp digits:/ckpt/model.pt .", "hora cp data/ digits:/data --rank 2"),
    ),
    Command(
        "sync", "Inside", "Give a run new code: its ranks start again with it", "hora.cli.sync:sync",
        "The ranks are stopped (SIGTERM, SIGKILL after timeouts.grace) and start as the next attempt, which is not\n"
        "charged to restarts; set-up runs again. Files that ranks have written into the code's folder stay in it.\n"
        "Returns when they run, or the run has ended.",
        (RUN,),
        (
            Option(("--code",), "The folder with the new code; that of the job where absent.", "DIR",
                   complete="folders"),
            Option(("--restart",), "Start the ranks again also when the code is the same."),
            *ON, QUIET,
        ),
        ("hora sync digits", "hora update digits --code ~/digits-2"),
        ("update",),
    ),
    Command(
        "init", "Prepare", "Write a commented job file to begin with", "hora.cli.prepare:init",
        "The framework is found from the script's imports.",
        (Argument("SCRIPT", "The training script.", needed=False, complete="files"),),
        (
            Option(("--file",), "Where to write it; job.yaml where absent, - for stdout.", "FILE", complete="files"),
            Option(("-n", "--workers"), "Number of workers; 2 where absent.", "N"),
            Option(("--framework",), "What the ranks meet by.", "NAME", complete="frameworks"),
            Option(("--force",), "Overwrite the file if it exists."),
        ),
        ("hora init train.py", "hora init train.py -n 8 --file big.yaml"),
    ),
    Command(
        "render", "Prepare", "Print what `hora run` would start, and start nothing", "hora.cli.run:render",
        "",
        JOB_ARGUMENTS,
        (
            *JOB,
            Option(("--with-identity",), "Also the run's certificates and your secrets' values: what kubectl needs "
                   "to apply it."),
        ),
        ("hora render job.yaml", "hora render -n 4 python train.py"),
    ),
    Command(
        "demo", "Prepare", "See it work: four ranks train a digit classifier together", "hora.cli.demo:demo",
        "Needs neither a cluster nor a GPU, nor any package; takes a few seconds.",
        (),
        (Option(("--save",), "Write the example and its job file into this folder instead of running it.", "DIR",
                complete="folders"),),
        ("hora demo", "hora demo --save digits"),
    ),
    Command(
        "rbac", "Admin", "Print the rights that Hora needs in a cluster's namespace",
        "hora.cli.cluster:rbac",
        "As a Role; with a user, group or service account also the RoleBinding. Without --namespace it is for\n"
        "whichever namespace it is applied to.",
        (),
        (
            Option(("--user",), "Give it to this user.", "NAME"),
            Option(("--group",), "Give it to this group.", "NAME"),
            Option(("--service-account",), "Give it to this service account, NAME or NAMESPACE/NAME.", "NAME"),
            Option(("--namespace",), "The namespace.", "NAME"),
            Option(("--name",), "Name of the Role; hora where absent.", "NAME"),
            Option(("--without",), "Leave out what Hora can do without; it then says what it can't do. May be "
                   "repeated.", "RIGHT", many=True, allowed=("portforward", "logs", "events", "quotas", "claims")),
        ),
        ("hora rbac | kubectl apply -n team-a -f -", "hora rbac --namespace team-a --user anna"),
    ),
    Command(
        "schema", "Admin", "Print the JSON Schema of the job file, for editors", "hora.cli.prepare:schema",
        "",
        (),
        (),
        ("hora schema > job.schema.json", "hora schema | python -m json.tool --sort-keys"),
    ),
    Command(
        "completion", "Admin", "Print the script that completes hora's words in a shell",
        "hora.cli.completion:completion",
        "bash: add `eval \"$(hora completion bash)\"` to ~/.bashrc\n"
        "zsh:  add `eval \"$(hora completion zsh)\"` to ~/.zshrc, after compinit\n"
        "fish: hora completion fish > ~/.config/fish/completions/hora.fish",
        (Argument("SHELL", "bash, zsh or fish.", complete="shells"),),
        (),
        ('eval "$(hora completion bash)"', "hora completion fish > ~/.config/fish/completions/hora.fish"),
    ),
)  # fmt: skip


def find(name: str) -> Command | None:
    return next((command for command in COMMANDS if name == command.name or name in command.aliases), None)
