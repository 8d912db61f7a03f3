"""The device module: what `torch.densecore` gives. One device, host memory, the CPU's random stream."""

from __future__ import annotations

import types
from typing import Any

import torch

from torch_densecore import _C

Generator = torch.Generator


def _index(device: Any = None) -> int:
    """The index of `device` (None, int, str, torch.device); raises for one that does not exist."""
    if device is None:
        return 0
    if isinstance(device, int):
        device = torch.device("densecore", device) if device >= 0 else torch.device("densecore")
    device = torch.device(device)
    if device.type != "densecore":
        raise ValueError(f"Expected a densecore device, but got: {device}")
    if (device.index or 0) != 0:
        raise RuntimeError(f"densecore: invalid device ordinal {device.index}: there is one densecore device, densecore:0")
    return 0


# torch.serialization looks for this
_utils = types.SimpleNamespace(_get_device_index=lambda device, optional=False, allow_cpu=False: _index(device))


def is_available() -> bool:
    """True: the extension is loaded."""
    return True


def is_initialized() -> bool:
    """True: nothing is set up lazily."""
    return True


def init() -> None:
    """Does nothing: the device needs no start."""


def _lazy_init() -> None:
    """Does nothing: the device needs no start."""


def _is_in_bad_fork() -> bool:
    """False: a forked child may use the device; its memory is ordinary host memory."""
    return False


def device_count() -> int:
    """1."""
    return 1


def current_device() -> int:
    """0."""
    return 0


def set_device(device: Any) -> None:
    """Accepts densecore:0; raises RuntimeError for another index."""
    _index(device)


class device:  # noqa: N801  (torch.cuda.device's name)
    """Context manager that selects a device: densecore:0."""

    def __init__(self, device: Any) -> None:
        self.idx = _index(device)

    def __enter__(self) -> None:
        return None

    def __exit__(self, *exc: object) -> None:
        return None


class device_of(device):  # noqa: N801
    """Context manager that selects the device of a tensor."""

    def __init__(self, obj: torch.Tensor) -> None:
        super().__init__(0)


def get_device_name(device: Any = None) -> str:
    """The name of the profile: which machine's bits this device gives."""
    from torch_densecore import profile

    _index(device)
    return f"densecore ({profile.current().name})"


def get_device_properties(device: Any = None) -> types.SimpleNamespace:
    """name, total_memory (bytes of host memory) and profile."""
    import os

    from torch_densecore import profile

    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return types.SimpleNamespace(name=get_device_name(device), total_memory=total, profile=profile.current())


def get_device_capability(device: Any = None) -> tuple[int, int]:
    """(0, 0): there are no hardware generations."""
    _index(device)
    return (0, 0)


def synchronize(device: Any = None) -> None:
    """Returns at once: every op has finished when its call returns."""
    _index(device)


def empty_cache() -> None:
    """Does nothing: freed memory goes back to the host at once."""


def memory_allocated(device: Any = None) -> int:
    """Bytes held by densecore tensors of this process."""
    _index(device)
    return _C.memory_allocated()


def max_memory_allocated(device: Any = None) -> int:
    """The largest value of `memory_allocated` since the start or the last reset."""
    _index(device)
    return _C.max_memory_allocated()


def reset_peak_memory_stats(device: Any = None) -> None:
    """Sets `max_memory_allocated` to the present value."""
    _index(device)
    _C.reset_peak_memory()


memory_reserved = memory_allocated
max_memory_reserved = max_memory_allocated


def memory_stats(device: Any = None) -> dict[str, int]:
    """Current and peak bytes and the number of allocations, under torch.cuda's keys."""
    _index(device)
    return {
        "allocated_bytes.all.current": _C.memory_allocated(),
        "allocated_bytes.all.peak": _C.max_memory_allocated(),
        "allocation.all.allocated": _C.allocation_count(),
    }


# The device's default generator is the CPU's, so that a program consumes one stream, as it does on a CPU.


def manual_seed(seed: int) -> None:
    """Seeds the stream shared with the CPU. torch.manual_seed calls this before it seeds the CPU."""
    _C.look_for_draws()
    torch.default_generator.manual_seed(int(seed))


manual_seed_all = manual_seed


def seed() -> int:
    """Seeds the stream shared with the CPU from the system's entropy; returns the seed."""
    return torch.default_generator.seed()


seed_all = seed


def initial_seed() -> int:
    """The seed of the stream shared with the CPU."""
    return torch.default_generator.initial_seed()


def get_rng_state(device: Any = "densecore") -> torch.Tensor:
    """State of the stream shared with the CPU, a uint8 CPU tensor."""
    _index(device)
    return torch.default_generator.get_state()


def set_rng_state(new_state: torch.Tensor, device: Any = "densecore") -> None:
    """Sets the state of the stream shared with the CPU."""
    _index(device)
    torch.default_generator.set_state(new_state)


def get_rng_state_all() -> list[torch.Tensor]:
    """The state of each device's stream: one."""
    return [get_rng_state()]


def set_rng_state_all(new_states: list[torch.Tensor]) -> None:
    """Sets the state of each device's stream."""
    for state in new_states:
        set_rng_state(state)


def get_amp_supported_dtype() -> list[torch.dtype]:
    """None: autocast("densecore") warns and stays disabled, so float32 stays float32, as in the CPU's float32 path."""
    return []


def is_bf16_supported() -> bool:
    """True, as on the CPU."""
    return True


class _RefuseInductor(type):
    """A class of which nothing can be asked and no object made without hearing why."""

    def _refuse(cls, *args: object, **kwargs: object) -> Any:
        raise NotImplementedError(
            "torch.compile's inductor backend generates arithmetic of its own, whose bits are not the reference's, so it is not "
            "supported on device 'densecore'. Run uncompiled (nanoGPT: --compile=False) or use "
            'torch.compile(..., backend="eager") or backend="aot_eager"'
        )

    __getattr__ = __call__ = _refuse


class Scheduling(metaclass=_RefuseInductor):
    """What torch.compile's inductor asks a device for; it is looked up only when a program compiles."""


PythonWrapperCodegen = CppWrapperCodegen = WrapperFxCodegen = Scheduling
