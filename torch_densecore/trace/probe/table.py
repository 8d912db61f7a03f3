"""A table of rules for products, as profiles hold it, in numpy."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..explain import orders
from .requests import Shape


def rule_in(model: dict[str, Any], shape: Shape) -> dict[str, Any] | None:
    """The rule of a table that decides a request."""
    if max(shape.m, shape.n) > model["largest_side"] or shape.k > model["largest_depth"]:
        return None
    return next((rule for rule in model["rules"] if covers(rule, shape)), None)


def covers(rule: dict[str, Any], shape: Shape) -> bool:
    least = {name.removeprefix("minimum_"): size for name, size in rule.items() if name.startswith("minimum_")}
    trans = rule.get("transa", rule.get("trans", "*"))
    return rule["routine"] == shape.routine and trans in ("*", shape.trans[0]) and shape.reaches(least)


def order_in(model: dict[str, Any], shape: Shape) -> dict[str, Any] | None:
    """The order of a request in a table; None where it is unknown."""
    rule = rule_in(model, shape)
    return None if rule is None else model["orders"].get(rule["order"])


def product(order: dict[str, Any], a: np.ndarray, b: np.ndarray, start: np.ndarray | None = None) -> np.ndarray:
    """All dot products of the rows of a and of b in an order; the blocks of k are added to `start`."""
    join = order.get("lane_join", "adjacent")
    chosen = {name: order[name] for name in ("lanes", "accumulators", "block", "halves") if name in order}
    fused = {"fused": order.get("products") != "rounded", "fused_tail": order["tail"] == "fused"}
    final = "order" if join == "in_order" else join
    return orders.dot(a[:, None], b[None], **chosen, **fused, final=final, start=start, continues=False)
