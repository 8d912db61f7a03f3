"""An operator's arguments as JSON: `{"$": 3}` stands for input tensor number 3, so that the call can be made again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

# JSON has no such values; the tag says what the text is
_TAGGED: dict[str, Callable[[str], Any]] = {
    "dtype": lambda text: getattr(torch, text),
    "device": torch.device,
    "layout": lambda text: getattr(torch, text),
    "memory_format": lambda text: getattr(torch, text),
    "complex": complex,
    "float": float,
    "object": lambda text: None,
}


def scan(value: Any, tensors: list[torch.Tensor], key: list[Any]) -> None:
    """Appends the tensors of an argument to `tensors` and what identifies the rest to `key` (hashable, exact)."""
    kind = type(value)
    if isinstance(value, torch.Tensor):
        tensors.append(value)
        key.append((value.dtype, value.shape, value.stride() if value.layout is torch.strided else None, value.device))
    elif kind is list or kind is tuple:
        key.append(len(value))
        for item in value:
            scan(item, tensors, key)
    elif kind is float or kind is complex:
        key.append(repr(value))  # 0.0 == -0.0 == 0 == False as dictionary keys
    elif kind is int or kind is bool:
        key.append((kind, value))
    elif value is None or isinstance(value, (str, torch.dtype, torch.device, torch.layout, torch.memory_format)):
        key.append(value)
    else:
        key.append(_plain(value))


def template(value: Any, counter: list[int]) -> Any:
    """JSON form of an argument; `counter[0]` is the number of the next tensor."""
    if isinstance(value, torch.Tensor):
        counter[0] += 1
        return {"$": counter[0] - 1}
    if isinstance(value, (list, tuple)):
        return [template(item, counter) for item in value]
    if isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)):
        return template(_plain(value), counter)
    if isinstance(value, float):
        return value if _finite(value) else {"float": repr(value)}
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, complex):
        return {"complex": repr(value)}
    for tag in ("dtype", "device", "layout", "memory_format"):
        if isinstance(value, getattr(torch, tag)):
            return {tag: str(value).removeprefix("torch.")}
    return {"object": _plain(value)}


def rebuild(value: Any, tensors: list[torch.Tensor], device: str | None = None) -> Any:
    """The argument that `template` described. `device` replaces every recorded device."""
    if isinstance(value, list):
        return [rebuild(item, tensors, device) for item in value]
    if not isinstance(value, dict):
        return value
    if "$" in value:
        return tensors[value["$"]]
    ((tag, text),) = value.items()
    if tag == "device" and device is not None:
        return torch.device(device)
    return _TAGGED[tag](text)


def tensor_meta(tensor: torch.Tensor) -> dict[str, Any]:
    """dtype, shape, stride and device of a tensor as JSON."""
    return {
        "dtype": str(tensor.dtype).removeprefix("torch."),
        "shape": list(tensor.shape),
        "stride": list(tensor.stride()) if tensor.layout is torch.strided else None,
        "device": tensor.device.type,
    }


def _plain(value: Any) -> Any:
    if isinstance(value, torch.SymInt):
        return int(value)
    if isinstance(value, torch.SymFloat):
        return float(value)
    if isinstance(value, torch.SymBool):
        return bool(value)
    return type(value).__name__


def _finite(value: float) -> bool:
    return value - value == 0
