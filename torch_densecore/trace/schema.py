"""What the lines of a trace must look like: a file that was edited by hand, checksums included, is refused where it is wrong.

Every function raises `ValueError` with what is wrong; the reader adds the line's number.
"""

from __future__ import annotations

from typing import Any

TAGS = ("dtype", "device", "layout", "memory_format", "complex", "float", "object")  # arguments that JSON does not have
DIGESTS = {str, type(None)}
SITE_TEXTS = ("op", "module", "phase", "source", "node", "param")


def check_header(value: dict[str, Any]) -> None:
    """Of the first line: what readers rely on."""
    _require(type(value.get("samples", 0)) is int, "samples is not a number")
    _require(value.get("order", "memory") in ("memory", "logical"), "order is neither memory nor logical")


def check_environment(value: Any) -> dict[str, Any]:
    """The environment, a dictionary of dictionaries."""
    _require(isinstance(value, dict), "the environment is not an object")
    return {name: section if isinstance(section, dict) else {"value": section} for name, section in value.items()}


def check_site(value: dict[str, Any]) -> None:
    """A site line."""
    _require(type(value["site"]) is int, "site is not a number")
    for name in SITE_TEXTS:
        _require(isinstance(value.get(name, ""), str), f"{name} is not text")
    _require(isinstance(value["inputs"], list) and isinstance(value["outputs"], list), "inputs or outputs are not lists")
    for meta in (*value["inputs"], *value["outputs"]):
        _check_meta(meta)
    args = value["args"]
    _require(isinstance(args, list) and len(args) == 2, "args is not a pair")
    _require(isinstance(args[0], list) and isinstance(args[1], dict), "args is not a list and an object")
    for argument in (*args[0], *args[1].values()):
        _check_argument(argument, len(value["inputs"]))


def check_event(value: list[Any], sites: dict[int, Any], previous: int) -> None:
    """An event line, kept short: a trace has a million of them."""
    index, site, inputs, outputs, samples, rng = value
    known = sites[site]
    if type(index) is not int or index <= previous:
        raise ValueError(f"event {index} does not follow event {previous}")
    if not (type(inputs) is type(outputs) is type(samples) is list):
        raise ValueError(f"event {index} has no lists of digests")
    if len(inputs) != len(known.inputs) or not len(outputs) == len(samples) == len(known.outputs):
        raise ValueError(f"event {index} has another number of tensors than its site {site}")
    if not set(map(type, (*inputs, *outputs, *samples))) <= DIGESTS:
        raise ValueError(f"event {index} has a digest that is no text")
    if rng is not None and not (type(rng) is list and len(rng) == 2 and type(rng[0]) is type(rng[1]) is str):
        raise ValueError(f"event {index} has no pair of generator states")


def check_other(value: dict[str, Any]) -> None:
    """A step, tensors, note or end line."""
    if "step" in value:
        _require(type(value["step"]) is int, "step is not a number")
    elif "tensors" in value:
        tensors = value["tensors"]
        _require(type(tensors["event"]) is type(tensors["bytes"]) is int, "tensors without event and size")
    elif "end" in value:
        _require(isinstance(value["end"]["status"], str), "the end has no status")


def _check_meta(meta: Any) -> None:
    shape, stride = meta["shape"], meta["stride"]
    _require(isinstance(meta["dtype"], str) and isinstance(meta["device"], str), "a tensor without dtype or device")
    _require(_sizes(shape), "a shape is not a list of sizes")
    _require(stride is None or (_sizes(stride) and len(stride) == len(shape)), "strides do not fit their shape")


def _sizes(value: Any) -> bool:
    return isinstance(value, list) and all(type(size) is int and size >= 0 for size in value)


def _check_argument(value: Any, tensors: int) -> None:
    if isinstance(value, list):
        for item in value:
            _check_argument(item, tensors)
    elif isinstance(value, dict):
        _require(len(value) == 1, "an argument of an unknown kind")
        ((tag, content),) = value.items()
        if tag == "$":
            _require(type(content) is int and 0 <= content < tensors, "an argument names a tensor that is not there")
        else:
            _require(tag in TAGS and isinstance(content, (str, bool, int, float)), f"an argument of the unknown kind {tag!r}")


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise ValueError(message)
