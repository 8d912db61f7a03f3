"""What overrides raise."""

from __future__ import annotations


class OverrideError(ValueError):
    """An override that cannot be: an unknown op, mode, group or profile field, or a file that cannot be read."""


class OverriddenOpError(RuntimeError):
    """An op was called that an override of mode `error` forbids."""


class DifferenceError(AssertionError):
    """An override of mode `check` found a differing element. `report` is a `check.Report`."""

    def __init__(self, report: object) -> None:
        super().__init__(str(report))
        self.report = report
