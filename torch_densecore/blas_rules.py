"""Hands a profile's BLAS table (`profiles/blas/*.json`) to the extension, whose form is csrc/numerics/blas/accelerate_rules.h."""

from __future__ import annotations

from typing import Any

from torch_densecore.profile import LANE_JOINS, ProfileError

FLOAT32_LANES = 4  # of a 16-byte vector
ROUTINES = ("gemm", "gemv", "dot")
SIZES = ("product", "m", "n", "k")
MAX_RULES, MAX_LANES, MAX_ACCUMULATORS = 64, 16, 16

# lanes, accumulators, tail fused, products fused, block of k, two halves, order of the lanes
Order = tuple[int, int, bool, bool, int, bool, int]
# routine, first matrix, least (m * n * k, m, n, k), order, order of an odd last column, provisional, known, when beta * C is added
Rule = tuple[str, str, tuple[int, int, int, int], Order, Order, bool, bool, int]

# When beta * C is added (Addend in csrc/numerics/blas/accelerate_rules.h): to alpha times the sum of products; before the blocks
# of k, alpha having multiplied the first matrix; as the start of one chain, alpha having multiplied the second; or not known.
ADDENDS = ("last", "first", "chain", "unknown")
PLAIN_ORDER = {"products": "fused", "block": 0, "halves": False, "lane_join": "adjacent"}  # what the certified kernels compute
UNKNOWN = "unknown"  # the order of a rule for shapes that a probe could not tell
UNLIMITED = (1 << 63) - 1
_ANY_ORDER: Order = (1, 1, True, True, 0, False, LANE_JOINS.index("adjacent"))


def float32_rules(table: dict[str, Any]) -> list[Rule]:
    """The rules for float32, in the table's order. Raises ProfileError for a table that the extension cannot hold."""
    try:
        orders = {name: _order(fields) for name, fields in table["orders"].items()}
        rules = [_rule(table, orders, fields) for fields in table["rules"]]
    except (KeyError, TypeError) as error:
        raise ProfileError(f"BLAS model {table.get('name')!r} is malformed: {error!r}") from error
    if not 1 <= len(rules) <= MAX_RULES:
        raise ProfileError(f"BLAS model {table['name']!r}: {len(rules)} rules; 1 to {MAX_RULES} are supported")
    return rules


def largest(table: dict[str, Any]) -> tuple[int, int]:
    """m and n, and k, up to which the table holds: a probe's has limits."""
    return int(table.get("largest_side", UNLIMITED)), int(table.get("largest_depth", UNLIMITED))


def is_plain(table: dict[str, Any]) -> bool:
    """Whether the certified kernels serve every request by the table; else only the ops with a variant kernel run."""
    orders, rules = table["orders"].values(), table["rules"]
    unknown = any(rule["order"] == UNKNOWN for rule in rules)
    plain = all(order.get(name, value) == value for order in orders for name, value in PLAIN_ORDER.items())
    last = all(_addend(table, rule) == "last" for rule in rules)
    complete = all(_serves_every_size(rules, routine, trans) for routine in ROUTINES for trans in "NT")
    return plain and last and complete and not (unknown or largest(table) != (UNLIMITED, UNLIMITED))


def _serves_every_size(rules: list[dict[str, Any]], routine: str, trans: str) -> bool:
    return any(
        rule["routine"] == routine
        and rule.get("transa", rule.get("trans", "*")) in ("*", trans)
        and all(rule.get(f"minimum_{name}", 0) <= 1 for name in SIZES)
        for rule in rules
    )


def _order(fields: dict[str, Any]) -> Order:
    lanes = FLOAT32_LANES if fields["lanes"] == "vector" else int(fields["lanes"])
    accumulators, block = int(fields["accumulators"]), int(fields.get("block", 0))
    words = fields["tail"], fields.get("products", "fused")
    join = fields.get("lane_join", "adjacent")
    if not (1 <= lanes <= MAX_LANES and 1 <= accumulators <= MAX_ACCUMULATORS and {*words} <= {"fused", "rounded"}):
        raise ProfileError(
            f"BLAS order {fields}: lanes and accumulators are 1 to {MAX_LANES}, the tail and products are fused or rounded"
        )
    if join not in LANE_JOINS or block < 0 or (join == "halves" and lanes & (lanes - 1)):
        raise ProfileError(
            f"BLAS order {fields}: lane_join is one of {', '.join(LANE_JOINS)} (halves: of 2, 4, 8 or 16 lanes), block is 0 or more"
        )
    fused_tail, fused = (word == "fused" for word in words)
    return lanes, accumulators, fused_tail, fused, block, bool(fields.get("halves", False)), LANE_JOINS.index(join)


def _addend(table: dict[str, Any], rule: dict[str, Any]) -> str:
    return rule.get("addend", table.get("addend", "last"))


def _rule(table: dict[str, Any], orders: dict[str, Order], fields: dict[str, Any]) -> Rule:
    routine, trans = fields["routine"], fields.get("transa", fields.get("trans", "*"))
    if routine not in ROUTINES or trans not in ("N", "T", "*"):
        raise ProfileError(f"BLAS rule {fields}: the routine is gemm, gemv or dot, a matrix is 'N' or 'T'")
    known = fields["order"] != UNKNOWN
    order = orders[fields["order"]] if known else _ANY_ORDER
    last = orders[fields["odd_last_column"]] if "odd_last_column" in fields else order
    least = tuple(int(fields.get(f"minimum_{name}", 0)) for name in SIZES)
    addend = _addend(table, fields)
    if addend not in ADDENDS or (addend == "chain" and not order[:2] == last[:2] == (1, 1)):
        raise ProfileError(f"BLAS rule {fields}: the addend is one of {', '.join(ADDENDS)} (chain: of an order of one chain)")
    return routine, trans, least, order, last, bool(fields.get("provisional", False)), known, ADDENDS.index(addend)
