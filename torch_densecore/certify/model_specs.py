"""Inputs of the operators that models are made of: normalization, attention, losses, lookup tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from .families import ROW_SHAPES, Rows, Several
from .inputs import FLOATS

MAKE = Callable[..., torch.Tensor]
Arguments = tuple[tuple[Any, ...], dict[str, Any]]
FLASH = "aten::_scaled_dot_product_flash_attention_for_cpu"
# batch, heads of queries, heads of keys, length of queries, length of keys, head size, causal: around the groups of 4 scores, the
# blocks of 32 queries and 512 keys, head sizes that fill no vector
ATTENTION = (
    (1, 1, 1, 1, 1, 16, 1), (1, 2, 2, 2, 2, 16, 1), (2, 2, 2, 5, 5, 8, 1), (1, 1, 1, 5, 5, 64, 1), (2, 3, 3, 17, 17, 16, 0),
    (1, 2, 2, 33, 33, 32, 1), (4, 2, 2, 64, 64, 16, 1), (1, 1, 1, 72, 72, 64, 1), (1, 2, 2, 65, 65, 20, 0),
    (1, 1, 1, 257, 257, 16, 1), (2, 1, 1, 7, 19, 9, 0), (1, 2, 2, 1, 40, 24, 0), (1, 1, 1, 513, 513, 32, 1),
    (1, 1, 1, 769, 769, 16, 1), (1, 4, 2, 5, 5, 8, 1), (2, 6, 2, 40, 40, 16, 0), (1, 4, 1, 200, 200, 16, 1),
    (1, 2, 2, 64, 64, 64, 1),
)  # fmt: skip


def _layer_norm(weight: bool, bias: bool) -> Rows:
    def build(make: MAKE, shape: tuple[int, ...]) -> Arguments:
        x = make(shape)
        parameters = [make(shape[-1:]) if present else None for present in (weight, bias)]
        return (x, [shape[-1]], *parameters, 1e-5), {}

    return Rows(build, ROW_SHAPES)


def _layer_norm_backward(weight: bool, bias: bool, mask: Sequence[bool]) -> Rows:
    def build(make: MAKE, shape: tuple[int, ...]) -> Arguments:
        grad, x = make(shape), make(shape)
        mean, scale = make((*shape[:-1], 1)), make((*shape[:-1], 1), "positive")
        parameters = [make(shape[-1:]) if present else None for present in (weight, bias)]
        return (grad, x, [shape[-1]], mean, scale, *parameters, list(mask)), {}

    return Rows(build, ROW_SHAPES)


def _normalization(add: Callable[..., None]) -> None:
    kinds = ((True, True), (True, False), (False, False))
    add("aten::native_layer_norm", Several([_layer_norm(*kind) for kind in kinds]), FLOATS)
    whole, rest = (True, True, True), (False, True, False)
    backwards = [_layer_norm_backward(*kind, mask) for *kind, mask in ((True, True, whole), (True, False, (True, True, False)))]
    backwards += [_layer_norm_backward(False, False, (True, False, False)), _layer_norm_backward(True, True, rest)]
    add("aten::native_layer_norm_backward", Several(backwards), FLOATS)


def _softmax_gradients(add: Callable[..., None]) -> None:
    def build(dim: int, result: Callable[[MAKE, tuple[int, ...]], torch.Tensor]) -> Rows:
        return Rows(lambda make, s: ((make(s), result(make, s), dim, torch.float32), {}), ROW_SHAPES)

    add("aten::_softmax_backward_data", Several([build(dim, lambda make, s: make(s, "unit")) for dim in (1, 0)]), FLOATS)
    logs = [build(dim, lambda make, s: -make(s, "positive")) for dim in (1, 0)]
    add("aten::_log_softmax_backward_data", Several(logs), FLOATS)


def _attention(make: MAKE, shape: tuple[int, ...]) -> Arguments:
    batch, heads, key_heads, queries, keys, width, causal = shape
    q = make((batch, queries, heads, width)).transpose(1, 2)
    k, v = (make((batch, keys, key_heads, width)).transpose(1, 2) for _ in range(2))
    return (q, k, v, 0.0, bool(causal)), {}


def _masked_attention(make: MAKE, shape: tuple[int, ...]) -> Arguments:
    (q, k, v, dropout, _), _ = _attention(make, shape)
    mask = make((q.shape[2], k.shape[2]))
    return (q, k, v, dropout, False), {"attn_mask": mask.masked_fill(mask > 1, float("-inf")), "scale": 0.3}


def _backward(forward: Callable[[MAKE, tuple[int, ...]], Arguments]) -> Callable[[MAKE, tuple[int, ...]], Arguments]:
    """The forward's results come from this host: they are inputs here, whatever their last bit."""

    def build(make: MAKE, shape: tuple[int, ...]) -> Arguments:
        (q, k, v, dropout, causal), options = forward(make, shape)
        out, logsumexp = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(q, k, v, dropout, causal, **options)
        grad = make(tuple(out.transpose(1, 2).shape)).transpose(1, 2)
        return (grad, q, k, v, out, logsumexp, dropout, causal), options

    return build


def _attentions(add: Callable[..., None]) -> None:
    builds = (_attention, _masked_attention)
    add(FLASH, Several([Rows(build, ATTENTION, layouts=("contiguous",)) for build in builds]), FLOATS)
    backwards = [Rows(_backward(build), ATTENTION, layouts=("contiguous",)) for build in builds]
    add(f"{FLASH}_backward", Several(backwards), FLOATS)


def _targets(make: MAKE, shape: Sequence[int], classes: int) -> torch.Tensor:
    return make(shape, "bits", torch.int64).remainder(classes)


def _nll(reduction: int, weighted: bool, backward: bool) -> Rows:
    """Ignores class 0. Rows of scores."""

    def build(make: MAKE, shape: tuple[int, ...]) -> Arguments:
        scores, target = make(shape), _targets(make, shape[:1], shape[1])
        weight = make(shape[1:], "unit") if weighted else None
        if not backward:
            return (scores, target, weight, reduction, 0), {}
        grad = make(shape[:1] if reduction == 0 else ())
        return (grad, scores, target, weight, reduction, 0, torch.tensor(float(shape[0]), dtype=scores.dtype)), {}

    return Rows(build, tuple(s for s in ROW_SHAPES if s[1] > 1), layouts=("contiguous",) if backward else ("contiguous", "strided"))


IMAGES = ((1, 2, 1, 1), (2, 3, 4, 5), (1, 5, 17, 9), (3, 4, 1, 33), (2, 3, 130, 65), (2, 2, 150, 120))


def _nll2d(reduction: int, weighted: bool, backward: bool) -> Rows:
    """Ignores class 1. Images of scores."""

    def build(make: MAKE, shape: tuple[int, ...]) -> Arguments:
        batch, classes, height, width = shape
        scores, target = make(shape), _targets(make, (batch, height, width), classes)
        weight = make((classes,), "unit") if weighted else None
        if not backward:
            return (scores, target, weight, reduction, 1), {}
        grad = make((batch, height, width) if reduction == 0 else ())
        return (grad, scores, target, weight, reduction, 1, torch.tensor(float(batch), dtype=scores.dtype)), {}

    return Rows(build, IMAGES, layouts=("contiguous",))


def _losses(add: Callable[..., None]) -> None:
    for name, family in (("nll_loss", _nll), ("nll_loss2d", _nll2d)):
        for direction in ("forward", "backward"):
            kinds = [(reduction, weighted) for reduction in (0, 1, 2) for weighted in (False, True)]
            families = [family(*kind, direction == "backward") for kind in kinds]
            add(f"aten::{name}_{direction}", Several(families), FLOATS)
    for name in ("mse_loss", "smooth_l1_loss", "huber_loss"):
        losses = [Rows(lambda make, s, r=reduction: ((make(s), make(s), r), {}), ROW_SHAPES) for reduction in (0, 1, 2)]
        add(f"aten::{name}", Several(losses), FLOATS)
    gradients = [Rows(lambda make, s, r=reduction: ((make(()), make(s), make(s), r), {}), ROW_SHAPES) for reduction in (1, 2)]
    gradients.append(Rows(lambda make, s: ((make(s), make(s), make(s), 0), {}), ROW_SHAPES))
    add("aten::mse_loss_backward", Several(gradients), FLOATS)


def _binary_cross_entropy(add: Callable[..., None]) -> None:
    def losses(backward: bool) -> Several:
        def family(reduction: int, weighted: bool) -> Rows:
            def build(make: MAKE, shape: tuple[int, ...]) -> Arguments:
                grad = (make(shape if reduction == 0 else ()),) if backward else ()
                return (*grad, make(shape, "unit"), make(shape, "unit"), make(shape, "unit") if weighted else None, reduction), {}

            return Rows(build, ROW_SHAPES)

        return Several([family(reduction, weighted) for reduction in (0, 1, 2) for weighted in (False, True)])

    add("aten::binary_cross_entropy", losses(backward=False), FLOATS)
    add("aten::binary_cross_entropy_backward", losses(backward=True), FLOATS)


def _tables(add: Callable[..., None]) -> None:
    def lookup(make: MAKE, shape: tuple[int, ...]) -> Arguments:
        table = make(shape)
        return (table, _targets(make, (11,), shape[0])), {}

    def backward(scaled: bool) -> Callable[[MAKE, tuple[int, ...]], Arguments]:
        def build(make: MAKE, shape: tuple[int, ...]) -> Arguments:
            grad = make((40, shape[1]))
            return (grad, _targets(make, (40,), shape[0]), shape[0], 0 if scaled else -1, scaled), {}

        return build

    add("aten::embedding", Rows(lookup, ROW_SHAPES), FLOATS)
    add("aten::embedding_dense_backward", Several([Rows(backward(scaled), ROW_SHAPES) for scaled in (False, True)]), FLOATS)


def declare(add: Callable[..., None]) -> None:
    """Calls add(op, family, dtypes) for each operator."""
    for group in (_normalization, _softmax_gradients, _attentions, _losses, _binary_cross_entropy, _tables):
        group(add)
