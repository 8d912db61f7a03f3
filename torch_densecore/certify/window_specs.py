"""Inputs of poolings and of the gradients of paddings: images of (batch, channels, height, width), channels first and last."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from .families import Pointwise, Rows

MAKE = Callable[..., torch.Tensor]
Arguments = tuple[tuple[Any, ...], dict[str, Any]]
aten = torch.ops.aten

# batch, channels, height, width, channels last; channels at the edges of vectors, the last two in several threads' chunks
IMAGES = (
    (1, 1, 5, 5, 0), (2, 3, 9, 7, 0), (1, 4, 6, 8, 1), (1, 9, 16, 17, 1), (2, 17, 8, 33, 0), (2, 33, 12, 9, 1), (2, 8, 90, 64, 1),
    (2, 8, 90, 64, 0),
)  # fmt: skip
WINDOW = ([3, 2], [2, 1], [1, 1])
VOLUME_WINDOW = ([3, 2, 2], [2, 1, 1], [1, 1, 1])


def _image(make: MAKE, shape: tuple[int, ...], kind: str = "special") -> torch.Tensor:
    image = make(shape[:4], kind)
    return image.contiguous(memory_format=torch.channels_last) if shape[4] else image


def _volume(make: MAKE, shape: tuple[int, ...], kind: str = "special") -> torch.Tensor:
    batch, channels, height, width, _ = shape
    return make((batch, channels, 6, height, width), kind)


def _like(make: MAKE, shape: tuple[int, ...], result: torch.Tensor) -> torch.Tensor:
    """A gradient for a result."""
    grad = make(tuple(result.shape))
    return grad.contiguous(memory_format=torch.channels_last) if shape[4] and result.dim() == 4 else grad


def _max_backward(op: Any, image: Callable[..., torch.Tensor], *window: Any) -> Callable[[MAKE, tuple[int, ...]], Arguments]:
    """The indices come from this host: they are inputs here."""

    def build(make: MAKE, shape: tuple[int, ...]) -> Arguments:
        x = image(make, shape, "normal")
        result, indices = op(x, *window)
        rest = () if len(window) == 1 else (*window, [0] * len(window[0]), [1] * len(window[0]), False)
        return (_like(make, shape, result), x, *rest, indices), {}

    return build


def _average_backward(make: MAKE, shape: tuple[int, ...]) -> Arguments:
    x = _image(make, shape, "normal")
    return (_like(make, shape, aten.avg_pool2d(x, *WINDOW)), x, *WINDOW, False, True, None), {}


def _average_volume_backward(make: MAKE, shape: tuple[int, ...]) -> Arguments:
    x = _volume(make, shape, "normal")
    return (make(tuple(aten.avg_pool3d(x, *VOLUME_WINDOW).shape)), x, *VOLUME_WINDOW, False, True, None), {}


WINDOWS: dict[str, Callable[[MAKE, tuple[int, ...]], Arguments]] = {
    "max_pool2d_with_indices": lambda make, s: ((_image(make, s), *WINDOW), {}),
    "max_pool3d_with_indices": lambda make, s: ((_volume(make, s), *VOLUME_WINDOW), {}),
    "adaptive_max_pool2d": lambda make, s: ((_image(make, s), [3, 4]), {}),
    "adaptive_max_pool3d": lambda make, s: ((_volume(make, s), [3, 4, 2]), {}),
    "max_pool2d_with_indices_backward": _max_backward(aten.max_pool2d_with_indices, _image, [3, 2], [2, 1]),
    "max_pool3d_with_indices_backward": _max_backward(aten.max_pool3d_with_indices, _volume, [3, 2, 2], [2, 1, 1]),
    "adaptive_max_pool2d_backward": _max_backward(aten.adaptive_max_pool2d, _image, [3, 4]),
    "adaptive_max_pool3d_backward": _max_backward(aten.adaptive_max_pool3d, _volume, [3, 4, 2]),
    "avg_pool2d": lambda make, s: ((_image(make, s, "mixed"), *WINDOW, s[1] % 2 == 0, s[2] % 2 == 0), {}),
    "avg_pool2d_backward": _average_backward,
    "avg_pool3d": lambda make, s: ((_volume(make, s, "mixed"), *VOLUME_WINDOW, s[1] % 2 == 0, s[2] % 2 == 0), {}),
    "avg_pool3d_backward": _average_volume_backward,
    "adaptive_avg_pool2d": lambda make, s: ((_image(make, s, "mixed"), [3, 4]), {}),
    "adaptive_avg_pool3d": lambda make, s: ((_volume(make, s, "mixed"), [3, 4, 2]), {}),
    "_adaptive_avg_pool3d": lambda make, s: ((_volume(make, s, "mixed"), [3, 4, 2]), {}),
    "_adaptive_avg_pool3d_backward": lambda make, s: ((make((*s[:2], 3, 4, 2)), _volume(make, s)), {}),
    "_adaptive_avg_pool2d": lambda make, s: ((_image(make, s, "mixed"), [3, 4]), {}),
    "_adaptive_avg_pool2d_backward": lambda make, s: ((_like(make, s, torch.empty(*s[:2], 3, 4)), _image(make, s)), {}),
}


def _pad_backward(dims: int) -> Callable[[MAKE, tuple[int, ...]], Arguments]:
    amounts = [1, 3, 2, 1, 1, 2][: 2 * dims]

    def build(make: MAKE, shape: tuple[int, ...]) -> Arguments:
        batch, channels, height, width, _ = shape
        sizes = [4, height, width][3 - dims :]
        grown = [size + sum(amounts[2 * (dims - 1 - i) : 2 * (dims - i)]) for i, size in enumerate(sizes)]
        return (make((batch, channels, *grown)), make((batch, channels, *sizes)), amounts), {}

    return build


def declare(add: Callable[..., None]) -> None:
    """Calls add(op, family, dtypes) for each operator."""
    for name, build in WINDOWS.items():
        add(f"aten::{name}", Rows(build, IMAGES, layouts=("contiguous", "strided")), (torch.float32,))
    for dims in (1, 2, 3):
        family = Rows(_pad_backward(dims), IMAGES, layouts=("contiguous", "strided"))
        for kind in ("reflection", "replication"):
            add(f"aten::{kind}_pad{dims}d_backward", family, (torch.float32,))
    add("aten::_prelu_kernel_backward", Pointwise(3, broadcast=False), (torch.float32,))
