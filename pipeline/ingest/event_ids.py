"""Ids of events: a hash of what a row says, and of its place among equal rows of its file.

In: the columns of a file's events, texts as codes into their distinct words. Out: 128 bits a row as two
halves, and as 32 hexadecimal digits.
The rule: each column adds a hash of its value to both halves, modulo 2**64; a null adds nothing. A text's
hash is BLAKE2b, personalised by the column's name, so that the same word in another column is another number.
An integer's is, for each half, the finaliser of SplitMix64 over the integer plus a seed of the column
(BLAKE2b of no text). Of equal rows the second adds what a column `ordinal` of 1 would, the third of 2. A sum
of hashes that know nothing of each other keeps two different rows apart but for a chance of 2**-128.
Easy to get wrong: an id must be the same on every machine and with every version of a library, so no
library's own hash is used; and a log's words repeat, so each is hashed once and not once a row.
Source: Steele, Lea and Flood, Fast Splittable Pseudorandom Number Generators (2014), with the constants of
Stafford's variant 13; RFC 7693 (BLAKE2); Zobrist, A New Hashing Method with Application for Game Playing
(1970), for the sum.
"""

from __future__ import annotations

import binascii
import hashlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

if TYPE_CHECKING:
    import numpy.typing as npt
    import pyarrow as pa

    Halves = npt.NDArray[np.uint64]  # two rows: the first and the second half of every id

_ID_DIGITS = 32
_BLOCK_ROWS = 1 << 15  # stays in the processor's cache
_MULTIPLIERS = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))
_SHIFTS = (np.uint64(30), np.uint64(27), np.uint64(31))
_BIG_ENDIAN = np.dtype(">u8")


def halves(columns: Mapping[str, Any], length: int) -> Halves:
    """Return the two halves of each row's id from Arrow columns of words or integers, by name."""
    sums = np.zeros((2, length), np.uint64)
    for name, column in columns.items():
        if column.null_count == length:
            continue
        if hasattr(column, "dictionary"):
            _add_words(sums, name, column)
        else:
            _add_integers(sums, name, column)
    places, ordinals = _repeats(sums)
    for half, seed in zip(sums, _seeds("ordinal"), strict=True):
        half[places] += _mixed(ordinals + seed)
    return sums


def texts(ids: Halves) -> pa.Array:
    """Return ids as text: 32 hexadecimal digits each."""
    import pyarrow as pa

    length = ids.shape[1]
    digits = binascii.hexlify(np.ascontiguousarray(ids.T, _BIG_ENDIAN).data)
    places = np.arange(0, _ID_DIGITS * length + 1, _ID_DIGITS, dtype=np.int32)
    return pa.Array.from_buffers(pa.string(), length, [None, pa.py_buffer(places), pa.py_buffer(digits)])


def _digest(name: str, text: bytes) -> bytes:
    return hashlib.blake2b(text, digest_size=16, person=name.encode()).digest()


def _seeds(name: str) -> Halves:
    return np.frombuffer(_digest(name, b""), _BIG_ENDIAN).astype(np.uint64)


def _add_words(sums: Halves, name: str, column: pa.DictionaryArray) -> None:
    import pyarrow as pa

    null = len(column.dictionary)
    hashes = np.zeros((2, null + 1), np.uint64)
    for start in range(0, null, _BLOCK_ROWS):
        words = column.dictionary.slice(start, _BLOCK_ROWS).cast(pa.binary()).to_pylist()
        digests = b"".join(_digest(name, word) for word in words)
        hashes[:, start : start + len(words)] = np.frombuffer(digests, _BIG_ENDIAN).reshape(-1, 2).T
    if null == 1 and not column.null_count:
        sums += hashes[:, :1]
        return
    codes = column.indices.fill_null(null).to_numpy(zero_copy_only=False)
    for block in _blocks(len(codes)):
        for half, table in zip(sums, hashes, strict=True):
            half[block] += table[codes[block]]


def _add_integers(sums: Halves, name: str, column: pa.Array) -> None:
    import pyarrow as pa

    is_null = column.is_null().to_numpy(zero_copy_only=False) if column.null_count else None
    values = column.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False).view(np.uint64)
    for block in _blocks(len(values)):
        for half, seed in zip(sums, _seeds(name), strict=True):
            mixed = _mixed(values[block] + seed)
            if is_null is not None:
                mixed[is_null[block]] = 0
            half[block] += mixed


def _blocks(length: int) -> list[slice]:
    return [slice(start, start + _BLOCK_ROWS) for start in range(0, length, _BLOCK_ROWS)]


def _mixed(values: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Return SplitMix64's finaliser of numbers, which may be overwritten."""
    for shift, multiplier in zip(_SHIFTS, (*_MULTIPLIERS, None), strict=True):
        values ^= values >> shift
        if multiplier is not None:
            values *= multiplier
    return values


def _repeats(sums: Halves) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint64]]:
    """Return the places of rows that repeat an earlier one, and how many equal ones stand before each."""
    # Most files repeat no row: then the sorted first halves tell it for little.
    ordered = np.sort(sums[0])
    if not (ordered[1:] == ordered[:-1]).any():
        return np.empty(0, np.int64), np.empty(0, np.uint64)
    frame = pl.DataFrame({"first": sums[0], "second": sums[1]}).with_row_index("place")
    again = frame.filter(pl.col("first").is_duplicated()).with_columns(
        pl.int_range(pl.len(), dtype=pl.UInt64).over("first", "second").alias("ordinal")
    )
    again = again.filter(pl.col("ordinal") > 0)
    return again["place"].cast(pl.Int64).to_numpy(), again["ordinal"].to_numpy().copy()
