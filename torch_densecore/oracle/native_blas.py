"""The BLAS model's rules for the compiled helper, and the log of what it computed (`helper/blas.h`)."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from typing import Any

_ROUTINES = ("gemm", "gemv", "dot")
_KINDS = "sd"
_RULES, _LANES, _ACCUMULATORS = 16, 4, 8
# the arguments of a request as the log of Python's model names them: argument, field
_ARGUMENTS: tuple[tuple[str, dict[str, str]], ...] = (
    ("gemm", {"transa": "trans_a", "transb": "trans_b", "m": "m", "n": "n", "k": "k", "alpha": "alpha", "lda": "lda",
              "ldb": "ldb", "beta": "beta", "ldc": "ldc"}),
    ("gemv", {"trans": "trans_a", "m": "m", "n": "n", "alpha": "alpha", "lda": "lda", "incx": "ldb", "beta": "beta",
              "incy": "ldc"}),
    ("dot", {"n": "n", "incx": "ldb", "incy": "ldc"}),
    ("axpy", {"n": "n", "alpha": "alpha", "incx": "ldb", "incy": "ldc"}),
    ("scal", {"n": "n", "alpha": "alpha", "incx": "ldb"}),
    ("copy", {"n": "n", "incx": "ldb", "incy": "ldc"}),
)  # fmt: skip


class _Order(ctypes.Structure):
    _fields_ = [(name, ctypes.c_int32) for name in ("lanes", "accumulators", "fused_tail")]


class _Rule(ctypes.Structure):
    _fields_ = [
        ("minimum_product", ctypes.c_int64), ("trans", ctypes.c_int32), ("index", ctypes.c_int32), ("order", _Order),
        ("odd_last_column", _Order),
    ]  # fmt: skip


class _Request(ctypes.Structure):
    _fields_ = [(name, ctypes.c_int32) for name in "routine is_double rule trans_a trans_b m n k lda ldb ldc unused".split()] + [
        ("alpha", ctypes.c_double),
        ("beta", ctypes.c_double),
    ]


class BlasTables(ctypes.Structure):
    """`struct blas`."""

    _fields_ = [
        ("rules", _Rule * _RULES * len(_ROUTINES) * len(_KINDS)), ("count", ctypes.c_int32 * len(_ROUTINES) * len(_KINDS)),
        ("logged", ctypes.c_int64), ("room", ctypes.c_int64), ("log", ctypes.POINTER(_Request)),
    ]  # fmt: skip

    def fill(self, table: dict[str, Any]) -> bool:
        """Take over a profile's table; False if it has more than the helper can hold."""
        orders = {name: _order(fields) for name, fields in table["orders"].items()}
        if None in orders.values():
            return False
        for kind, routine in ((k, r) for k in range(len(_KINDS)) for r in range(len(_ROUTINES))):
            name = _KINDS[kind] + _ROUTINES[routine]
            fitting = [(index, rule) for index, rule in enumerate(table["rules"]) if name.endswith(rule["routine"])]
            if len(fitting) > _RULES:
                return False
            self.count[kind][routine] = len(fitting)
            for place, (index, rule) in enumerate(fitting):
                self.rules[kind][routine][place] = _Rule(
                    rule.get("minimum_product", 0), ord(rule.get("transa", rule.get("trans", "\0"))), index,
                    orders[rule["order"]], orders[rule["odd_last_column"]] if "odd_last_column" in rule else _Order(),
                )  # fmt: skip
        return True

    def take(self) -> Iterator[tuple[str, dict[str, Any], int | None]]:
        """Empty the log: routine, arguments, and index of the rule in the profile's table."""
        count, self.logged = self.logged, 0
        for request in self.log[:count] if count else ():
            name, arguments = _ARGUMENTS[request.routine]
            values = {argument: getattr(request, field) for argument, field in arguments.items()}
            for flag in ("transa", "transb", "trans"):
                if flag in values:
                    values[flag] = chr(values[flag])
            yield _KINDS[request.is_double] + name, values, request.rule if request.rule >= 0 else None


def _order(fields: dict[str, Any]) -> _Order | None:
    lanes = 0 if fields["lanes"] == "vector" else fields["lanes"]
    if lanes > _LANES or fields["accumulators"] > _ACCUMULATORS:
        return None
    return _Order(lanes, fields["accumulators"], fields["tail"] == "fused")
