"""Numbers of a job: counts, flags, CPUs, sizes, ports and durations, as people write them.

Each reader takes what a file, a flag or Python may hold and raises ValueError in words.  No pydantic here.
"""

from __future__ import annotations

import re

from hora.load.values import Plain, shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def whole(low: int, high: int | None = None) -> Callable[[Any], int]:
    """A whole number.  010, 0x10, 1_000 and 1:30 are refused: YAML readers don't agree on them."""

    def parse(value: Any) -> int:
        if isinstance(value, str):
            number = int(value) if re.fullmatch(r"-?(0|[1-9][0-9]{0,18})", value) else None
            if number is not None and not isinstance(value, Plain):
                raise ValueError(f"must be a number without quotes, got {shown(value)}")
        else:
            number = value if isinstance(value, int) and not isinstance(value, bool) else None
        if number is None:
            raise ValueError(f"must be a whole number, got {shown(value)}")
        if number < low:
            raise ValueError(f"must be {low} or more, got {number}")
        if high is not None and number > high:
            raise ValueError(f"must be {high} or less, got {number}")
        return number

    return parse


def flag(value: Any) -> bool:
    read = value.value if isinstance(value, Plain) else value
    if not isinstance(read, bool):
        raise ValueError(f"must be true or false, got {shown(value)}")
    return read


_NUMBER = r"([0-9]{1,30})?(?:\.([0-9]{0,30}))?"
_SUFFIXES = {
    "": (1, 0), "m": (1, -3),
    "k": (1, 3), "M": (1, 6), "G": (1, 9), "T": (1, 12), "P": (1, 15), "E": (1, 18),
    "Ki": (2**10, 0), "Mi": (2**20, 0), "Gi": (2**30, 0),
    "Ti": (2**40, 0), "Pi": (2**50, 0), "Ei": (2**60, 0),
}  # fmt: skip
_SIZES = "4Gi (2^30 bytes), 512Mi, 4G (10^9 bytes) or 1e9"


def _quantity(value: Any) -> tuple[int, int] | None:
    """A Kubernetes quantity as an exact fraction."""
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        return None
    match = re.fullmatch(_NUMBER + r"(?:([a-zA-Z]{0,2})|[eE]([+-]?[0-9]{1,2}))", str(value))
    if match is None or not (match[1] or match[2]):
        return None
    if match[4] is not None:
        times, power = 1, int(match[4])
    elif (match[3] or "") in _SUFFIXES:
        times, power = _SUFFIXES[match[3] or ""]
    else:
        return None
    decimals = match[2] or ""
    number = int((match[1] or "") + decimals) * times
    power -= len(decimals)
    return (number * 10**power, 1) if power >= 0 else (number, 10**-power)


def cpu(value: Any) -> float:
    """CPUs: 2, 0.5 or 500m."""
    fraction = _quantity(value)
    if fraction is None:
        raise ValueError(f"must be a number of CPUs as 2, 0.5 or 500m, got {shown(value)}")
    thousandths = fraction[0] * 1000 // fraction[1]
    if thousandths < 1:
        raise ValueError(f"must be 1m (a thousandth of a CPU) or more, got {shown(value)}")
    if thousandths > 100_000_000:
        raise ValueError(f"must be 100000 CPUs or less, got {shown(value)}")
    return thousandths / 1000


def size(low: int) -> Callable[[Any], int]:
    """Bytes, as a Kubernetes quantity, rounded up."""

    def parse(value: Any) -> int:
        fraction = _quantity(value)
        if fraction is None:
            raise ValueError(f"must be a size as {_SIZES}, got {shown(value)}{_size_hint(value)}")
        number = -(-fraction[0] // fraction[1])
        if number < low:
            raise ValueError(f"must be {size_text(low)} or more, got {shown(value)}{_size_hint(value)}")
        if number >= 2**63:
            raise ValueError(f"must be less than 8Ei, got {shown(value)}")
        return number

    return parse


def _size_hint(value: Any) -> str:
    match = re.fullmatch(r"([0-9.]+)\s*([a-zA-Z]*)", value if isinstance(value, str) else str(value))
    if match is None:
        return ""
    unit = match[2].lower().removesuffix("b").removesuffix("i").upper()
    if not unit:
        return f"; did you mean {match[1]}Gi?"
    return f"; did you mean {match[1]}{unit}i?" if unit in ("K", "M", "G", "T", "P", "E") else ""


def size_text(number: int) -> str:
    """The shortest quantity that is exactly this many bytes."""
    for suffix, (times, power) in reversed(_SUFFIXES.items()):
        unit = times * 10 ** max(power, 0)
        if suffix and power >= 0 and number and number % unit == 0:
            return f"{number // unit}{suffix}"
    return str(number)


def ports(value: Any) -> tuple[int, int]:
    """A range of ports: 30000-30063; in Python also a pair."""
    if isinstance(value, (list, tuple)) and len(value) == 2:
        value = f"{value[0]}-{value[1]}"
    match = re.fullmatch(r"([0-9]{1,9})(?:\s*-\s*([0-9]{1,9}))?", str(value))
    if match is None or isinstance(value, bool):
        raise ValueError(f"must be a range of ports as 30000-30063, got {shown(value)}")
    first, last = int(match[1]), int(match[2] or match[1])
    if not 1 <= first <= last <= 65535:
        raise ValueError(f"must be ports from 1 to 65535, the lower one first, got {shown(value)}")
    return first, last


# --- time --------------------------------------------------------------------------------------------

_UNITS = {"d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1000, "ms": 1}
_SPAN = re.compile("(?=.)" + "".join(rf"(?:([0-9]{{1,12}}(?:\.[0-9]{{1,6}})?){unit})?" for unit in _UNITS))
_DURATIONS = "90s, 10m, 24h or 1h30m"


def duration(low: float = 0.001) -> Callable[[Any], float]:
    """Seconds, exact to a millisecond."""

    def parse(value: Any) -> float:
        seconds = _seconds(value)
        if seconds is None:
            hint = f"; did you mean {value}s?" if re.fullmatch(r"[0-9]+", str(value)) else ""
            raise ValueError(f"must be a duration as {_DURATIONS}, got {shown(value)}{hint}")
        if seconds < low:
            raise ValueError(f"must be {duration_text(low)} or more, got {shown(value)}")
        if seconds > 1e9:
            raise ValueError(f"must be less than 31 years, got {shown(value)}")
        return seconds

    return parse


def limit(low: float = 0.001) -> Callable[[Any], float | None]:
    """A duration, or none."""
    parse = duration(low)

    def parse_or_none(value: Any) -> float | None:
        if value == "none":
            return None
        try:
            return parse(value)
        except ValueError as error:
            raise ValueError(str(error).replace(f"as {_DURATIONS}", f"as {_DURATIONS}, or none")) from None

    return parse_or_none


def _seconds(value: Any) -> float | None:
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        # From Python a bare number is seconds; a file must write its unit.
        return round(value * 1000) / 1000 if 0 <= value < 1e12 else None
    match = _SPAN.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        return None
    milliseconds = sum(
        float(number) * _UNITS[unit] for number, unit in zip(match.groups(), _UNITS) if number is not None
    )
    return round(milliseconds) / 1000


def duration_text(seconds: float | None) -> str:
    """What `duration` and `limit` read as exactly this many seconds."""
    if seconds is None:
        return "none"
    milliseconds = round(seconds * 1000)
    for unit in ("h", "m", "s"):
        if milliseconds % _UNITS[unit] == 0:
            return f"{milliseconds // _UNITS[unit]}{unit}"
    return f"{milliseconds}ms"
