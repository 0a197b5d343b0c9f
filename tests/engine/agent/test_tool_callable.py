import functools
import operator
from collections.abc import Callable
from typing import Any

import pytest

from sureact.agent.docstring import Docstring
from sureact.agent.tool_callable import annotated_callable, bound_names, callable_docstring, callable_name


def search(query: str, k: int = 5) -> None:
    """Search.

    Args:
        query: words
    """


SEARCHED = Docstring("Search.", {"query": "words"})


class Finder:
    """Finds.

    Args:
        query: how a finder is made
    """

    def __call__(self, query: str) -> None:
        """Find it.

        Args:
            query: what is found
        """


class QuietFinder(Finder):
    """Finds quietly."""

    def __call__(self, query: str) -> None: ...


class ArgumentsOnly(Finder):
    """Finds."""

    def __call__(self, query: str) -> None:
        """
        Args:
            query: what
        """


class Undocumented:
    func = print

    def __call__(self, query: str) -> None: ...


class ByItsClass:
    """Finds.

    Args:
        query: words
    """

    def __call__(self, query: str) -> None: ...


class Decorated:
    """A decorator."""

    def __init__(self, func: Callable[..., object]) -> None:
        functools.update_wrapper(self, func)

    def __call__(self, *args: Any, **kwargs: Any) -> None:
        """Call what is decorated."""


def named_partial() -> functools.partial[None]:
    named = functools.partial(search, k=1)
    named.__name__, named.__doc__ = "find", "Find."  # pyright: ignore[reportAttributeAccessIssue]
    return named


def nested_partial() -> functools.partial[None]:
    inner = functools.partial(search, k=1)
    inner.note = "kept apart"  # pyright: ignore[reportAttributeAccessIssue]  one with attributes is not flattened
    return functools.partial(inner, query="q")


@pytest.mark.parametrize(
    ("func", "name", "docstring"),
    [
        (search, "search", SEARCHED),
        (functools.partial(search, k=1), "search", SEARCHED),
        (nested_partial(), "search", SEARCHED),
        (named_partial(), "find", Docstring("Find.")),
        (functools.lru_cache(search), "search", SEARCHED),
        (Finder(), "Finder", Docstring("Find it.", {"query": "what is found"})),
        (functools.partial(Finder()), "Finder", Docstring("Find it.", {"query": "what is found"})),
        (QuietFinder(), "QuietFinder", Docstring("Find it.", {"query": "what is found"})),
        (ArgumentsOnly(), "ArgumentsOnly", Docstring("Finds.", {"query": "what"})),
        (ByItsClass(), "ByItsClass", Docstring("Finds.", {"query": "words"})),
        (Undocumented(), "Undocumented", Docstring()),
        (Undocumented.__call__, "__call__", Docstring()),
        (Decorated(search), "search", SEARCHED),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_callable_is_named_and_described(func: Any, name: str, docstring: Docstring):
    assert (callable_name(func), callable_docstring(func)) == (name, docstring)


def test_an_object_written_in_c_is_described_by_its_class():
    assert callable_docstring(operator.itemgetter(1)).summary.startswith("itemgetter(")


def test_annotations_are_those_of_what_has_the_signature():
    assert annotated_callable(nested_partial()) is search
    assert annotated_callable(Decorated(search)) is search
    assert annotated_callable(functools.partial(Undocumented())) is Undocumented.__call__
    assert annotated_callable(Undocumented) is Undocumented


def test_what_a_partial_binds_by_keyword_is_known():
    assert bound_names(nested_partial()) == {"k", "query"}
    assert bound_names(functools.partial(search, "q")) == frozenset()
    assert bound_names(search) == frozenset()
