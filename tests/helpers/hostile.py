"""Names that break programs which paste text together."""

from __future__ import annotations

HOSTILE: dict[str, str] = {
    "space": "two words",
    "leading space": " first",
    "single quote": "it's",
    "double quote": 'say "hi"',
    "newline": "one\ntwo",
    "trailing newline": "end\n",
    "tab": "a\tb",
    "carriage return": "a\rb",
    "dollar": "$HOME ${PATH} $(id) `id`",
    "backslash": "back\\slash\\n",
    "leading dash": "-rf",
    "double dash": "--",
    "glob": "*?[a-z]{1,2}",
    "shell": "a;b&c|d<e>f#g!h~(i)",
    "percent": "%s %(name)s 100%",
    "braces": "{} {0} {{x}} ${{y}}",
    "non-ASCII": "Größe-číslo-数字",
    "combining": "e\u0301",
    "right to left": "\u05e9\u05dc\u05d5\u05dd",
    "emoji": "🎡👩‍🔬",
    "equals": "a=b=c",
    "comma and colon": "a,b:c",
    "looks like a flag": "--help",
    "looks like a number": "007",
    "looks like YAML": "no: [yes, ~]",
    "escape sequence": "\x1b[31mred",
    "empty": "",
}

# As file names: not empty, no slash (none has one); short enough for a Unix socket beside it.
FOLDERS = {what: name for what, name in HOSTILE.items() if name}
