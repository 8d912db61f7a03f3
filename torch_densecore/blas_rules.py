"""Hands a profile's BLAS table (`profiles/blas/*.json`) to the extension, whose form is csrc/numerics/blas/accelerate_rules.h."""

from __future__ import annotations

from typing import Any

from torch_densecore.profile import ProfileError

FLOAT32_LANES = 4  # of a 16-byte vector
MAX_RULES = MAX_LANES = MAX_ACCUMULATORS = 16

Order = tuple[int, int, bool]
Rule = tuple[str, str, int, Order, Order, bool]


def float32_rules(table: dict[str, Any]) -> list[Rule]:
    """The rules for float32, in the table's order.

    A rule is its routine, the first matrix ("N", "T" or "*"), the smallest m * n * k, the order, that of an odd last column, and
    whether it is provisional. An order is lanes, accumulators, and whether the tail is fused. Raises ProfileError for a table that
    the extension cannot hold.
    """
    try:
        orders = {name: _order(fields) for name, fields in table["orders"].items()}
        rules = [_rule(orders, fields) for fields in table["rules"]]
    except (KeyError, TypeError) as error:
        raise ProfileError(f"BLAS model {table.get('name')!r} is malformed: {error!r}") from error
    if not 1 <= len(rules) <= MAX_RULES:
        raise ProfileError(f"BLAS model {table['name']!r}: {len(rules)} rules; 1 to {MAX_RULES} are supported")
    return rules


def _order(fields: dict[str, Any]) -> Order:
    lanes = FLOAT32_LANES if fields["lanes"] == "vector" else int(fields["lanes"])
    accumulators = int(fields["accumulators"])
    if not (1 <= lanes <= MAX_LANES and 1 <= accumulators <= MAX_ACCUMULATORS and fields["tail"] in ("fused", "rounded")):
        raise ProfileError(f"BLAS order {fields}: lanes and accumulators are 1 to {MAX_LANES}, the tail is fused or rounded")
    return lanes, accumulators, fields["tail"] == "fused"


def _rule(orders: dict[str, Order], fields: dict[str, Any]) -> Rule:
    routine, trans = fields["routine"], fields.get("transa", fields.get("trans", "*"))
    if routine not in ("gemm", "gemv", "dot") or trans not in ("N", "T", "*"):
        raise ProfileError(f"BLAS rule {fields}: the routine is gemm, gemv or dot, a matrix is 'N' or 'T'")
    order = orders[fields["order"]]
    last = orders[fields.get("odd_last_column", fields["order"])]
    return routine, trans, int(fields.get("minimum_product", 0)), order, last, bool(fields.get("provisional", False))
