"""The instruction classes: importing this package fills the decoding table."""

from . import branch, floating, integer, memory, vector, vector_memory, vector_move, vector_shift, vector_unary  # noqa: F401
