"""Shell completion: small scripts that ask `hora __complete` for the words that fit."""

from __future__ import annotations

from hora.cli import out
from hora.cli.commands import COMMANDS, find
from hora.cli.words import Argument
from hora.errors import HoraError, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from hora.cli.words import Command, Option, Words

THEIRS = Argument("COMMAND", rest=True)  # where the words of the user's own command have begun

# What `hora __complete` prints for the shell to do itself.
FILES, FOLDERS, PROGRAMS = "\tfiles", "\tfolders", "\tprograms"

BASH = r"""
_hora() {
    local word line at words=() IFS=$'\n'
    # bash breaks words at = and :, which our options and labels hold: put them together again
    for ((at = 1; at <= COMP_CWORD; at++)); do
        word=${COMP_WORDS[at]}
        if ((at > 1)) && [[ $word == [=:]* || ${COMP_WORDS[at-1]} == [=:] ]]; then
            words[${#words[@]}-1]+=$word
        else
            words+=("$word")
        fi
    done
    # what bash takes for the word, and what stands before it in ours
    [[ $word == [=:] ]] && word=
    local whole=${words[${#words[@]}-1]}
    local before=${whole%"$word"}
    COMPREPLY=()
    for line in $(hora __complete "${words[@]}" 2>/dev/null); do
        case $line in
            $'\tfiles') compopt -o filenames; COMPREPLY+=($(compgen -f -- "$word")) ;;
            $'\tfolders') compopt -o filenames; COMPREPLY+=($(compgen -d -- "$word")) ;;
            $'\tprograms') COMPREPLY+=($(compgen -c -- "$word")) ;;
            *) line=${line%%$'\t'*}; COMPREPLY+=("${line#"$before"}") ;;
        esac
    done
}
complete -F _hora hora
"""

ZSH = r"""
#compdef hora
_hora() {
    local line
    local -a found
    for line in "${(@f)$(hora __complete "${(@)words[2,CURRENT]}" 2>/dev/null)}"; do
        case $line in
            $'\tfiles') _files ;;
            $'\tfolders') _files -/ ;;
            $'\tprograms') _command_names -e ;;
            '') ;;
            *$'\t'*) found+=("${${line%%$'\t'*}//:/\\:}:${line#*$'\t'}") ;;
            *) found+=("${line//:/\\:}") ;;
        esac
    done
    (( $#found )) && _describe hora found
}
compdef _hora hora
"""

FISH = r"""
function __hora_words
    for line in (hora __complete (commandline -opc)[2..-1] (commandline -ct) 2>/dev/null)
        switch $line
            case \t'files'
                __fish_complete_path (commandline -ct)
            case \t'folders'
                __fish_complete_directories (commandline -ct)
            case \t'programs'
                __fish_complete_command
            case '*'
                echo $line
        end
    end
end
complete -c hora -f -a '(__hora_words)'
"""

SCRIPTS = {"bash": BASH, "zsh": ZSH, "fish": FISH}


def completion(words: Words) -> int:
    shell = words.text("shell") or ""
    if shell not in SCRIPTS:
        raise UsageError(f"completion: no script for {shell!r}; allowed: {', '.join(SCRIPTS)}")
    out.result(SCRIPTS[shell].lstrip("\n"))
    return 0


def complete(words: list[str]) -> int:
    """Words that can stand where the last of `words` is being typed: `word<TAB>explanation` each."""
    *before, last = words or [""]
    try:
        found = list(_candidates(before, last))
    except HoraError:
        return 1  # no runs can be listed: a shell shows nothing then
    out.result("\n".join(line for line in found if line.startswith(last) or line[0] == "\t"))
    return 0


def _candidates(before: list[str], last: str) -> Iterable[str]:
    if not before:
        return [f"{command.name}\t{command.summary}" for command in COMMANDS]
    command = find(before[0])
    if command is None:
        return []
    option, places = _position(command, before[1:])
    if option is not None:
        return _ranks(before) if option.key == "rank" else _values(option.complete, option.allowed)
    if places and places[0] is THEIRS:
        return [FILES]
    if last.startswith("-"):
        return _options(command, last)
    needed = next((at for at, place in enumerate(places) if place.needed), len(places))
    offered = [word for place in places[: needed + 1] for word in _values(place.complete, ())]
    return [word for word in offered if word.partition("\t")[0] not in before[1:]]  # nobody says a run twice


def _options(command: Command, last: str) -> list[str]:
    name, equals, _ = last.partition("=")
    if not equals:
        return [f"{name}\t{one.help}" for one in command.options for name in one.names if len(name) > 2]
    option = command.option(name)
    values = _values(option.complete, option.allowed) if option is not None else []
    return [f"{name}={value}" for value in values if value not in (FILES, FOLDERS)]


def _position(command: Command, words: list[str]) -> tuple[Option | None, list[Argument]]:
    """The option whose value comes next, or the arguments that may come next."""
    places = list(command.arguments)
    left = list(words)
    while left and places[:1] != [THEIRS]:
        word = left.pop(0)
        option = command.option(word)
        if option is not None and option.value:
            if not left:
                return option, []
            left.pop(0)
        elif not word.startswith("-"):
            places = _after(places, word)
    return None, places


def _after(places: list[Argument], word: str) -> list[Argument]:
    """The arguments that may follow a word."""
    from hora.cli.parse import looks_like_job_file

    while places and places[0].job_file and not looks_like_job_file(word):
        places = places[1:]
    if places and places[0].rest:
        return [THEIRS]
    return places if places and places[0].many else places[1:]


def _values(kind: str, allowed: tuple[str, ...]) -> list[str]:
    if allowed:
        return list(allowed)
    if kind == "files":
        return [FILES]
    if kind == "folders":
        return [FOLDERS]
    if kind == "commands":
        return [PROGRAMS, FILES]
    if kind == "shells":
        return list(SCRIPTS)
    if kind == "frameworks":
        from hora import frameworks
        from hora.spec import FRAMEWORKS

        return list(dict.fromkeys((*FRAMEWORKS, *frameworks.names())))
    if kind == "places":
        from hora import places

        return places.names()
    if kind == "copies":
        return [FILES, *(f"{name}:\t{text}" for name, _, text in (line.partition("\t") for line in _runs()))]
    return _runs() if kind == "runs" else []


def _runs() -> list[str]:
    """Ids and names, the newest first."""
    from hora import api

    newest = list(reversed(api.list_runs()))
    ids = [f"{run.id}\t{run.name} {run.phase}" for run in newest]
    return ids + [f"{name}\tthe newest {name}" for name in dict.fromkeys(run.name for run in newest)]


def _ranks(before: list[str]) -> list[str]:
    """Those of the run that was named."""
    from hora import api

    ids = [run for run in api.list_runs() if run.id in before or run.name in before]
    members = ids[-1].members if ids else ()
    return [f"{member.name}/{rank.number}\trank {rank.rank}" for member in members for rank in member.ranks]
