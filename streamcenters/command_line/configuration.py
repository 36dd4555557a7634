"""TOML files and options, checked against one table of what may be set."""

from __future__ import annotations

import math
import os
import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from streamcenters.command_line.failures import CommandError, nearest
from streamcenters.command_line.sizes import parse_size

# Table of the TOML file -> key -> value.
Tables: TypeAlias = dict[str, dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Kind:
    """What a value must be, in words and as a test; `convert` makes it what the program uses."""

    wanted: str
    fits: Callable[[Any], bool]
    convert: Callable[[Any], Any] = lambda value: value


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: Any) -> bool:
    return isinstance(value, float) or _is_whole(value)


_TEXT = Kind("a text", lambda value: isinstance(value, str) and value != "")
_COUNT = Kind("a whole number of at least 1", lambda value: _is_whole(value) and value >= 1)
_COUNT_OR_ZERO = Kind("a whole number of at least 0", lambda value: _is_whole(value) and value >= 0)
_POSITIVE = Kind("a positive number", lambda value: _is_number(value) and 0 < value < math.inf)
_SIZE = Kind("a size like '512MB'", lambda value: isinstance(value, str) or _is_whole(value), parse_size)
_SECONDS = Kind("a number of seconds from 0 up", lambda value: _is_number(value) and value >= 0)
_YES_OR_NO = Kind("true or false", lambda value: isinstance(value, bool))
_BATCH_ID = Kind(
    "a text or a whole number", lambda value: _is_whole(value) or (isinstance(value, str) and value != "")
)
_CLASSES = Kind(
    "a list of labels, or a text with commas between them",
    lambda value: isinstance(value, list | str) and len(value) > 0,
    lambda value: [parse_label(label) for label in value.split(",")] if isinstance(value, str) else value,
)
_FILL_OR_RAISE = Kind("'fill' or 'raise'", lambda value: value in ("fill", "raise"))
_RAISE_OR_SKIP = Kind("'raise' or 'skip'", lambda value: value in ("raise", "skip"))

# Any other key of [estimator] is a parameter of that estimator, which checks it.
_PARAMETER = Kind("a value", lambda value: True)

_KNOWN: dict[str, dict[str, Kind]] = {
    "data": {
        "path": _TEXT,
        "labels": _TEXT,
        "threads": _COUNT,
        "memory": _SIZE,
        "missing_chunks": _FILL_OR_RAISE,
        "on_bad_chunk": _RAISE_OR_SKIP,
        "retries": _COUNT_OR_ZERO,
    },
    "estimator": {"name": _TEXT},
    "model": {"path": _TEXT},
    "job": {
        "path": _TEXT,
        "batch_id": _BATCH_ID,
        "consume": _YES_OR_NO,
        "store_name": _TEXT,
        "classes": _CLASSES,
        "window_rows": _COUNT,
        "window_batches": _COUNT,
        "half_life": _POSITIVE,
        "wait": _SECONDS,
    },
    "checkpoint": {"path": _TEXT, "every": _POSITIVE},
    "held_out": {"path": _TEXT, "labels": _TEXT},
    "predict": {"data": _TEXT, "output": _TEXT},
    "rank": {"top": _COUNT, "compare": _TEXT},
    "planted": {
        "rows": _COUNT,
        "test_rows": _COUNT,
        "features": _COUNT,
        "informative": _COUNT,
        "classes": _COUNT,
        "effect": _POSITIVE,
        "seed": _COUNT_OR_ZERO,
        "chunk_rows": _COUNT,
    },
}


@dataclass(frozen=True, slots=True)
class Setting:
    """A value that came from an option, with the table and key that it stands for."""

    option: str
    table: str
    key: str
    value: Any


def read_tables(path: str) -> Tables:
    """Return the checked tables of a TOML file.

    Paths inside are taken as they are: relative to the current directory, as in options.
    """
    if os.path.isdir(path):
        raise CommandError(f"{path} is a folder, not a TOML file; pass a store with --data")
    with open(path, "rb") as file:
        content = file.read()
    try:
        text = content.decode("utf-8")
        tables = tomllib.loads(text)
    except UnicodeDecodeError as error:
        raise CommandError(f"{path} is not a TOML file: it is not UTF-8 text") from error
    except tomllib.TOMLDecodeError as error:
        # tomllib gives line and column, except at the end
        end = f"at line {len(text.splitlines())}, the end of the file"
        reason = str(error).replace("at end of document", end)
        raise CommandError(f"{path} is not valid TOML: {reason}") from error
    return {name: _checked_table(name, table, path) for name, table in tables.items()}


def _checked_table(name: str, table: Any, path: str) -> dict[str, Any]:
    if not isinstance(table, dict):
        raise CommandError(f"{path}: {name!r} stands outside of any table; {_table_of(name)}")
    if name not in _KNOWN:
        raise CommandError(f"{path} has the unknown table [{name}]; {nearest(name, _KNOWN)}")
    return {key: _checked_value(name, key, value, f"{path}: ") for key, value in table.items()}


def _table_of(key: str) -> str:
    homes = [f"[{table}]" for table, keys in _KNOWN.items() if key in keys]
    return f"put it into {' or '.join(homes)}" if homes else nearest(key, _KNOWN)


def _checked_value(table: str, key: str, value: Any, place: str) -> Any:
    known = _KNOWN[table]
    if key not in known and table != "estimator":
        raise CommandError(f"{place}unknown key {key!r} in [{table}]; {nearest(key, known)}")
    kind = known.get(key, _PARAMETER)
    where = f"{place}{key} in [{table}]"
    return _converted(kind, value, where)


def _converted(kind: Kind, value: Any, where: str) -> Any:
    if not kind.fits(value):
        raise CommandError(f"{where} is {value!r}; {kind.wanted} is needed")
    try:
        return kind.convert(value)
    except CommandError as error:
        raise CommandError(f"{where}: {error}") from error


def merge_settings(tables: Tables, settings: list[Setting]) -> Tables:
    """Return the tables with the options put over them.

    Examples
    --------
    >>> merge_settings({"data": {"path": "a"}}, [Setting("--data", "data", "path", "b")])
    {'data': {'path': 'b'}}
    """
    merged = {name: dict(table) for name, table in tables.items()}
    for setting in settings:
        kind = _KNOWN[setting.table].get(setting.key, _PARAMETER)
        value = _converted(kind, setting.value, setting.option)
        merged.setdefault(setting.table, {})[setting.key] = value
    return merged


def require(tables: Mapping[str, Mapping[str, Any]], table: str, key: str, option: str) -> Any:
    """Return a value that the command cannot do without."""
    value = tables.get(table, {}).get(key)
    if value is None:
        raise CommandError(f"{option} is missing; pass it, or set {key} in [{table}] of a TOML file")
    return value


def parse_value(text: str) -> Any:
    """Return what a text stands for in TOML; a bare word is itself.

    Examples
    --------
    >>> parse_value("50"), parse_value("0.1"), parse_value("std"), parse_value('"50"'), parse_value("true")
    (50, 0.1, 'std', '50', True)
    """
    try:
        parsed = tomllib.loads(f"value = {text}")
    except tomllib.TOMLDecodeError:
        if re.fullmatch(r"[A-Za-z_][\w.-]*", text):
            return text
        raise CommandError(
            f"{text!r} is not a TOML value; write 3, 0.5, true, word or '\"a text\"'"
        ) from None
    if parsed.keys() != {"value"}:
        raise CommandError(f"{text!r} is more than one TOML value")
    return parsed["value"]


def parse_label(text: str) -> Any:
    """Return a label or id as it is meant on the command line: a whole number if it is written as one.

    Examples
    --------
    >>> parse_label("7"), parse_label("007"), parse_label(" T cell ")
    (7, '007', 'T cell')
    """
    text = text.strip()
    is_whole = re.fullmatch(r"0|-?[1-9]\d{0,17}", text) is not None
    return int(text) if is_whole else text


def parse_assignment(text: str) -> tuple[str, Any]:
    """Return name and value of `name=value`.

    Examples
    --------
    >>> parse_assignment("missing=ignore")
    ('missing', 'ignore')
    """
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise CommandError(f"--set {text!r} is not of the form name=value")
    return name.strip(), parse_value(value.strip())
