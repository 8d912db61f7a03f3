"""The device module: what `torch.densecore` gives. One device, host memory, the CPU's random stream."""

from __future__ import annotations
