"""Python's start in the emulated aarch64: torch.distributed needs NCCL, a stub here; without these names torch leaves it out."""

from importlib.machinery import ExtensionFileLoader
from types import ModuleType

_exec_module = ExtensionFileLoader.exec_module


def _without_distributed(self: ExtensionFileLoader, module: ModuleType) -> None:
    _exec_module(self, module)
    if module.__name__ == "torch._C":
        for name in ("_c10d_init", "_rpc_init", "_dist_autograd_init", "_faulty_agent_init"):
            if hasattr(module, name):
                delattr(module, name)


ExtensionFileLoader.exec_module = _without_distributed  # type: ignore[method-assign]
