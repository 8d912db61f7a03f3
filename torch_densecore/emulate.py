"""Our kernels on `device="cpu"`: chosen ops give the reference's bits on CPU tensors too.

    with torch_densecore.emulate_cpu("random"): ...     # while the context lasts
    @torch_densecore.emulate_cpu("random")              # while the function runs
    torch_densecore.emulate_cpu("random")               # from here on
    DENSECORE_EMULATE_CPU=random python train.py        # the whole process

"random" is what a `--device=densecore` run needs for weights that are drawn on the CPU; "all" is every op that has a kernel.
Off by default. The kernels are put on torch's CPU dispatch key for the whole process, all threads, and torch's own come back
exactly when the last user leaves.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from typing import Any, TypeVar

from torch_densecore import profile
from torch_densecore._device import unsupported

Function = TypeVar("Function", bound=Callable[..., Any])

GROUPS: dict[str, tuple[str, ...]] = {
    # draws, and what torch.nn.init computes from them
    "random": (
        "normal_", "uniform_", "bernoulli_.float", "bernoulli_.Tensor", "bernoulli.out", "exponential_", "log_normal_", "cauchy_",
        "geometric_", "random_", "random_.from", "random_.to", "randperm.generator_out", "multinomial", "multinomial.out",
        "normal.Tensor_float", "normal.float_Tensor", "normal.Tensor_Tensor", "native_dropout", "erfinv", "erfinv_", "erfinv.out",
    ),
}  # fmt: skip


def available() -> list[str]:
    """Ops that can be emulated on the CPU: those with a kernel of ours, by full name."""
    from torch_densecore import _C

    return sorted(name for name, device_only in _C.own_kernels() if not device_only)


def resolve(words: tuple[str, ...]) -> list[str]:
    """The ops that `words` name: a group, "all", or ops such as "aten::normal_" or "normal_". Raises ValueError for others."""
    if reason := unsupported(profile.current()):
        raise profile.ProfileError(reason.replace("device 'densecore'", "emulate_cpu"))
    known = available()
    names: list[str] = []
    for word in words:
        group = word.removeprefix("@")
        if group in ("all", "1"):
            found = known
        elif group in GROUPS:
            found = [f"aten::{op}" for op in GROUPS[group] if f"aten::{op}" in known]
        else:
            name = word if "::" in word else f"aten::{word}"
            found = [name] if name in known else []
        if not found:
            raise ValueError(
                f"torch_densecore: nothing to emulate for {word!r}: this build has no such kernel. "
                f"Groups: {', '.join([*GROUPS, 'all'])}; ops: see `densecore coverage`"
            )
        names += [name for name in found if name not in names]
    return names


class emulate_cpu:  # noqa: N801  (used like a function)
    """Puts our kernels of the named ops on the CPU; see the module's text. Raises ValueError for an op without a kernel."""

    def __init__(self, *words: str) -> None:
        from torch_densecore import _C

        self.words = words or ("all",)
        self.ops = resolve(self.words)
        self.active = True
        _C.emulate_on_cpu(self.ops)

    def restore(self) -> None:
        """Gives the CPU its own kernels back."""
        from torch_densecore import _C

        if self.active:
            self.active = False
            _C.restore_cpu_kernels(self.ops)

    def __enter__(self) -> emulate_cpu:
        return self

    def __exit__(self, *exc: object) -> None:
        self.restore()

    def __call__(self, function: Function) -> Function:
        """Decorator: the kernels serve the CPU while `function` runs."""
        self.restore()

        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            with emulate_cpu(*self.words):
                return function(*args, **kwargs)

        return wrapper  # type: ignore[return-value]


def emulated() -> list[str]:
    """The ops that our kernels serve on the CPU at this moment."""
    from torch_densecore import _C

    return sorted(_C.emulated_ops())


def accept_cpu_draws() -> None:
    """Regards all random draws made on the CPU so far as acceptable, though they used this host's own arithmetic."""
    from torch_densecore import _C

    _C.accept_host_draws()


def apply() -> None:
    """Does what the environment variable DENSECORE_EMULATE_CPU asks for."""
    words = os.environ.get("DENSECORE_EMULATE_CPU", "").replace(",", " ").split()
    if words and words != ["0"]:
        emulate_cpu(*words)
