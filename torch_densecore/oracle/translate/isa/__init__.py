"""The instruction classes: importing this package fills the decoding table."""

from . import branch, floating, integer, memory, vector, vector_memory  # noqa: F401
