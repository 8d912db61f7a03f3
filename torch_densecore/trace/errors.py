"""The one exception of the trace tools: its message is all that a user sees."""

from __future__ import annotations


class TraceError(Exception):
    """A file, a command or a request that cannot be used; the message says what is wrong and the way out."""
