"""Walks what a module holds in its attributes, lists, tuples and dictionaries.

The names are those of dspy: `a.b`, `steps[2]`, `by_name['x']` for predictors, and `self.a`, `self.steps[2]`,
`self.by_name[x]` for sub modules. Unlike there, predictors in lists of lists are found too.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, cast

from sureact.errors import ConfigError

if TYPE_CHECKING:
    from sureact.agent.module import Module
    from sureact.agent.predict import Predict


class Place(NamedTuple):
    """A predictor, where it is, and what puts another one there."""

    name: str
    predictor: Predict
    replace: Callable[[Any], None]


def predictor_places(module: Module) -> list[Place]:
    """Return all predictors of a module, each once, in the order of the attributes."""
    from sureact.agent.predict import Predict

    found: list[Place] = []
    if isinstance(module, Predict):
        found.append(Place("self", module, _refusal("A predictor cannot replace itself.")))
    _collect(module, "", found, {id(module)})
    return found


def sub_modules(module: Module, kind: type[Any] | None, *, skip_compiled: bool) -> Generator[tuple[str, Any]]:
    """Yield the module and all below it, nearest first, each once."""
    from sureact.agent.module import Module

    kind = kind or Module
    queue: deque[tuple[str, object]] = deque([("self", module)])
    seen = {id(module)}
    while queue:
        name, item = queue.popleft()
        if isinstance(item, kind):
            yield name, item
        if isinstance(item, Module) and skip_compiled and is_compiled(item):
            continue
        for part in _parts(item):
            if id(part.value) not in seen:
                seen.add(id(part.value))
                queue.append((part.name_in(name, quotes_keys=False), part.value))


def is_compiled(module: Module) -> bool:
    """Whether an optimizer has marked the module as finished: its predictors are then no longer those of its owner."""
    return bool(getattr(module, "_compiled", False))


class _Part(NamedTuple):
    """What an object holds under a key."""

    key: object
    kind: Literal["attribute", "index", "key"]
    value: object
    replace: Callable[[Any], None]

    def name_in(self, owner: str, *, quotes_keys: bool) -> str:
        """Return the name, after that of the owner."""
        if self.kind == "attribute":
            return f"{owner}.{self.key}" if owner else str(self.key)
        return f"{owner}['{self.key}']" if quotes_keys and self.kind == "key" else f"{owner}[{self.key}]"


def _collect(item: object, prefix: str, found: list[Place], seen: set[int]) -> None:
    from sureact.agent.module import Module
    from sureact.agent.predict import Predict

    for part in _parts(item):
        value = part.value
        if id(value) in seen or not isinstance(value, Module | list | tuple | dict):
            continue
        seen.add(id(value))
        name = part.name_in(prefix, quotes_keys=True)
        if isinstance(value, Predict):
            found.append(Place(name, value, part.replace))
        if not isinstance(value, Module) or not is_compiled(value):
            _collect(value, name, found, seen)


def _parts(item: object) -> list[_Part]:
    from sureact.agent.module import Module

    if isinstance(item, Module):
        return [_Part(name, "attribute", value, _attribute_setter(item, name)) for name, value in vars(item).items()]
    if isinstance(item, list):
        values = cast("list[object]", item)
        return [_Part(index, "index", value, _item_setter(values, index)) for index, value in enumerate(values)]
    if isinstance(item, tuple):
        refuse = _refusal("It is in a tuple, which does not change; hold it in a list.")
        return [_Part(index, "index", value, refuse) for index, value in enumerate(cast("tuple[object, ...]", item))]
    if isinstance(item, dict):
        mapping = cast("dict[object, object]", item)
        return [_Part(key, "key", value, _item_setter(mapping, key)) for key, value in mapping.items()]
    return []


def _attribute_setter(module: Module, name: str) -> Callable[[Any], None]:
    return lambda value: setattr(module, name, value)


def _item_setter(container: Any, key: object) -> Callable[[Any], None]:
    return lambda value: container.__setitem__(key, value)


def _refusal(reason: str) -> Callable[[Any], None]:
    def refuse(value: object) -> None:
        raise ConfigError(f"map_named_predictors cannot put another predictor there. {reason}")

    return refuse
