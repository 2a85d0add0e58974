"""What a LimitRange makes of the pods of a run, and what it forbids.  Pure."""

from __future__ import annotations

from hora.places.kubernetes import amounts, words
from hora.places.kubernetes.amounts import amount, millis, named, number

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

    from hora.places.kubernetes.amounts import Group

    Object = Mapping[str, Any]


def problems(group: Group, ranges: Sequence[Object]) -> Iterator[str]:
    for each in ranges:
        for limit in each["spec"].get("limits", ()):
            if limit.get("type") == "Container":
                pods = [(limits, requests) for limits, requests in _containers(group, limit)]
            elif limit.get("type") == "Pod":
                pods = [_sum(_containers(group, _defaults(ranges)))]
            else:
                continue
            for limits, requests in pods:
                for told in _broken(limit, limits, requests):
                    yield _text(group, each["metadata"]["name"], *told)


def _containers(group: Group, limit: Object) -> list[tuple[dict[str, int], dict[str, int]]]:
    """(limits, requests) as the LimitRange completes them."""
    made = []
    for container in group.containers:
        own = container.get("resources") or {}
        limits = {**millis(limit.get("default")), **millis(own.get("limits"))}
        requests = {**limits, **millis(limit.get("defaultRequest")), **millis(own.get("requests"))}
        made.append((limits, {**requests, **millis(own.get("requests"))}))
    return made


def _defaults(ranges: Sequence[Object]) -> dict[str, Any]:
    made: dict[str, Any] = {"default": {}, "defaultRequest": {}}
    for limit in (limit for each in ranges for limit in each["spec"].get("limits", ())):
        if limit.get("type") == "Container":
            for key in made:
                made[key] = {**made[key], **(limit.get(key) or {})}
    return made


def _sum(pairs: Sequence[tuple[dict[str, int], dict[str, int]]]) -> tuple[dict[str, int], dict[str, int]]:
    """Of a pod: what all its containers have; nothing where one of them has nothing."""
    total: tuple[dict[str, int], dict[str, int]] = ({}, {})
    for made, parts in zip(total, zip(*pairs)):
        for resource in set.intersection(*(set(part) for part in parts)):
            made[resource] = sum(part[resource] for part in parts)
    return total


def _broken(
    limit: Object, limits: Mapping[str, int], requests: Mapping[str, int]
) -> Iterator[tuple[str, str, str]]:
    """(resource, the rule as it goes on after "the LimitRange x", what the pod has)."""
    each = f"each {limit['type'].lower()}"
    for resource, low in millis(limit.get("min")).items():
        has = requests.get(resource)
        if has is None or has < low:
            yield resource, f"asks {each} for at least {amount(low, resource)}", _has(has, resource)
    for resource, high in millis(limit.get("max")).items():
        has = limits.get(resource)
        if has is None or has > high:
            yield resource, f"allows {each} at most {amount(high, resource)}", _has(has, resource)
    for resource, most in millis(limit.get("maxLimitRequestRatio")).items():
        top, low = limits.get(resource), requests.get(resource, 0)
        if top is None or top * 1000 > most * low:
            rule = f"allows {each} a limit of {number(most)} times its request of {named(resource)}"
            yield resource, rule, _has(top, resource)
    for resource, ceiling in limits.items():
        if requests.get(resource, 0) > ceiling:
            rule = f"gives {each} a limit of {amount(ceiling, resource)}"
            yield resource, rule, f"a request of {amount(requests[resource], resource)}"


def _has(value: int | None, resource: str) -> str:
    return "no limit" if value is None else amount(value, resource)


def _text(group: Group, name: str, resource: str, rule: str, has: str) -> str:
    if group.role == words.LEAD:
        return (
            f"the LimitRange {name} {rule}, and Hora's lead has {has}: ask who runs the namespace to allow it"
        )
    return f"the LimitRange {name} {rule}, and {group.role} has {has}: set {amounts.key(resource) or 'resources'}"


def completed(group: Group, ranges: Sequence[Object]) -> Group:
    """The pods as they are after the LimitRange has completed them."""
    given = _containers(group, _defaults(ranges))
    made = []
    for container, (limits, requests) in zip(group.containers, given):
        told = {
            kind: {name: f"{value}m" for name, value in values.items()}
            for kind, values in (("limits", limits), ("requests", requests))
        }
        made.append({**container, "resources": told})
    inits = len(group.spec.get("initContainers", ()))
    spec = {**group.spec, "initContainers": made[:inits], "containers": made[inits:]}
    return amounts.Group(group.role, group.count, {**group.template, "spec": spec})
