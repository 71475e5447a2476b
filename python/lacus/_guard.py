"""Errors of Python's own that say nothing about Lacus, as errors of Lacus.

Text goes to the native module as UTF-8. A ``str`` may hold what UTF-8 cannot: half of a surrogate pair, as
``os.listdir`` makes of file names that are not UTF-8. Python's error for it names neither the call nor a way out.
"""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from .errors import InvalidError

_P = ParamSpec("_P")
_R = TypeVar("_R")
_C = TypeVar("_C", bound=type)

#: Methods that run functions of the caller, whose errors are the caller's.
_FOREIGN = {"filter", "map", "where"}


def guarded(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """The function, with text that is no UTF-8 as an :class:`InvalidError`."""

    @functools.wraps(function)
    def call(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        try:
            return function(*args, **kwargs)
        except UnicodeEncodeError as error:
            raise InvalidError(_told(function.__name__, error)) from error

    return call


def guard(cls: _C) -> _C:
    """The class, with all of its methods guarded."""
    for name, member in list(vars(cls).items()):
        is_plain = isinstance(member, types.FunctionType) and not inspect.isgeneratorfunction(member)
        if is_plain and name not in _FOREIGN:
            setattr(cls, name, guarded(member))
    return cls


def _told(name: str, error: UnicodeEncodeError) -> str:
    text: Any = error.object
    code = ord(text[error.start]) if isinstance(text, str) and error.start < len(text) else 0
    shown = ascii(text) if len(text) <= 60 else f"{text[:60]!a}…"
    called = "" if name.startswith("__") else f"{name}: "
    return (
        f"{called}{shown} cannot be written as UTF-8: character {error.start} is U+{code:04X} (surrogates not allowed); "
        "remove it, or decode the bytes it came from with their own encoding"
    )
