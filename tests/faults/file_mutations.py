"""Ways to damage a file: without a thought, by its structure, and with a checksum that fits."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from typing import Any

import numpy as np

Mutation = Callable[[bytes, np.random.Generator], bytes]


def _span(raw: bytes, rng: np.random.Generator) -> slice:
    start = int(rng.integers(0, len(raw) + 1))
    return slice(start, min(len(raw), start + int(rng.integers(1, 64))))


def flip_bits(raw: bytes, rng: np.random.Generator) -> bytes:
    damaged = bytearray(raw)
    for at in rng.integers(0, len(raw), int(rng.integers(1, 4))):
        damaged[at] ^= 1 << int(rng.integers(0, 8))
    return bytes(damaged)


def set_bytes(raw: bytes, rng: np.random.Generator) -> bytes:
    damaged, span = bytearray(raw), _span(raw, rng)
    damaged[span] = bytes([int(rng.choice([0, 0xFF, 0x7F, 0x80, 0x20]))]) * (span.stop - span.start)
    return bytes(damaged)


def cut(raw: bytes, rng: np.random.Generator) -> bytes:
    return raw[: int(rng.integers(0, len(raw)))]


def extend(raw: bytes, rng: np.random.Generator) -> bytes:
    n_more = int(rng.integers(1, 200))
    return raw + (bytes(n_more) if rng.random() < 0.5 else rng.bytes(n_more))


def leave_out(raw: bytes, rng: np.random.Generator) -> bytes:
    span = _span(raw, rng)
    return raw[: span.start] + raw[span.stop :]


def double(raw: bytes, rng: np.random.Generator) -> bytes:
    span = _span(raw, rng)
    return raw[: span.stop] + raw[span] + raw[span.stop :]


def swap(raw: bytes, rng: np.random.Generator) -> bytes:
    size = int(rng.integers(1, 64))
    if len(raw) < 2 * size:
        return raw[::-1]
    first = int(rng.integers(0, len(raw) - 2 * size + 1))
    second = int(rng.integers(first + size, len(raw) - size + 1))
    head, one, between = raw[:first], raw[first : first + size], raw[first + size : second]
    return head + raw[second : second + size] + between + one + raw[second + size :]


def huge_number(raw: bytes, rng: np.random.Generator) -> bytes:
    """Put a huge size where a size may be: eight bytes anywhere, most often near the beginning."""
    damaged = bytearray(raw)
    at = int(rng.integers(0, min(64, len(raw)))) if rng.random() < 0.7 else int(rng.integers(0, len(raw)))
    number = int(rng.choice(np.array([2**31, 2**32 + 8, 2**40, 2**62, 2**63 - 1], np.int64)))
    damaged[at : at + 8] = struct.pack("<Q", number)
    return bytes(damaged)


BLIND: list[Mutation] = [flip_bits, set_bytes, cut, extend, leave_out, double, swap, huge_number]


# -- safetensors files, by their structure -----------------------------------------------------------


def split_frame(raw: bytes) -> tuple[dict[str, Any], bytes]:
    """Return the header and the data of a safetensors file."""
    size = int.from_bytes(raw[:8], "little")
    return json.loads(raw[8 : 8 + size]), raw[8 + size :]


def join_frame(header: str, body: bytes) -> bytes:
    """Return a safetensors file of a header, whatever it says, and data."""
    encoded = header.encode("utf-8", "surrogatepass")
    return len(encoded).to_bytes(8, "little") + encoded + body


def change_layout(raw: bytes, rng: np.random.Generator) -> bytes:
    """Change what the header says of the arrays: types, shapes, offsets, names."""
    header, body = split_frame(raw)
    names = [name for name in header if name != "__metadata__"]
    name = names[int(rng.integers(0, len(names)))]
    entry = header[name]
    huge = int(rng.choice(np.array([-1, 0, 2**31, 2**40, 2**62], np.int64)))
    changes: list[Callable[[], Any]] = [
        lambda: entry.update(dtype=str(rng.choice(["F64", "F32", "I64", "BOOL", "BF16", "U8", "X9", ""]))),
        lambda: entry.update(shape=[huge, *entry["shape"][1:]]),
        lambda: entry.update(shape=[*entry["shape"], 1]),
        lambda: entry.update(data_offsets=[entry["data_offsets"][0], huge]),
        lambda: entry.update(data_offsets=[huge, entry["data_offsets"][1]]),
        lambda: header.update({name: header[names[int(rng.integers(0, len(names)))]]}),
        lambda: header.update({f"../{name}": header.pop(name)}),
        lambda: header.pop(name),
        lambda: header.pop("__metadata__"),
        lambda: header.update(__metadata__={"streamcenters": "[" * 5_000}),
        lambda: header.update(__metadata__=dict.fromkeys(header["__metadata__"], "{}")),
    ]
    changes[int(rng.integers(0, len(changes)))]()
    return join_frame(json.dumps(header), body)


def double_a_key(raw: bytes, rng: np.random.Generator) -> bytes:
    """Say the same of an array twice, the second time something else."""
    header, body = split_frame(raw)
    name = next(key for key in header if key != "__metadata__")
    entry = json.dumps(header[name] | {"shape": [1]})
    return join_frame(f'{json.dumps(header)[:-1]}, "{name}": {entry}}}', body)


def change_text(raw: bytes, rng: np.random.Generator) -> bytes:
    """Change the JSON header of ours without a checksum that fits."""
    header, body = split_frame(raw)
    key = next(iter(header["__metadata__"]))
    text = header["__metadata__"][key]
    at = int(rng.integers(0, len(text)))
    odd = ["NaN", "Infinity", "1e999", "9" * 400, '"', "{", "[[[[", "\ud800", "\x00", "null", "-1", "true"]
    header["__metadata__"][key] = text[:at] + odd[int(rng.integers(0, len(odd)))] + text[at + 1 :]
    return join_frame(json.dumps(header), body)


STRUCTURED: list[Mutation] = [change_layout, double_a_key, change_text]

ODD_VALUES: list[Any] = [
    None, True, -1, 0, 2**70, 1e400, float("nan"), "", "x" * 5_000, [], {}, [[]], [None], {"a": {}}, "../../etc/passwd",
]  # fmt: skip


def odd_field(value: Any, rng: np.random.Generator, depth: int = 0) -> Any:
    """Return a JSON value in which something, somewhere, is odd."""
    is_deep = isinstance(value, dict | list) and len(value) > 0 and (depth == 0 or rng.random() < 0.6)
    if not is_deep:
        return ODD_VALUES[int(rng.integers(0, len(ODD_VALUES)))]
    changed = dict(value) if isinstance(value, dict) else list(value)
    keys = list(changed) if isinstance(changed, dict) else range(len(changed))
    key = list(keys)[int(rng.integers(0, len(keys)))]
    if isinstance(changed, dict) and rng.random() < 0.15:
        del changed[key]
    else:
        changed[key] = odd_field(changed[key], rng, depth + 1)
    return changed


def odd_array(array: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return an array of another type, shape or with other values."""
    choices: list[Callable[[], np.ndarray]] = [
        lambda: array.astype(str(rng.choice(["f4", "i4", "u1", "?", "f8", "i8"]))),
        lambda: array.reshape(-1),
        lambda: array[..., :-1] if array.ndim else array,
        lambda: array[:0] if array.ndim else array,
        lambda: np.concatenate([array, array]) if array.ndim else array,
        lambda: np.full_like(array, rng.choice([-1, 0, 100])) if array.dtype != bool else ~array,
        lambda: np.full(array.shape, np.nan) if array.dtype.kind == "f" else array[::-1].copy(),
        lambda: np.full(array.shape, 2**62) if array.dtype == np.int64 else array[None],
    ]
    with np.errstate(all="ignore"):
        return choices[int(rng.integers(0, len(choices)))]()
