"""Op-by-op overrides: any op can be switched, alone, between ways of computing it. See docs/overrides.md.

    parse           settings.py (the words after =), opnames.py (the ops before it), rules.py (text, mappings, files)
    what decides    precedence.py
    in force        scope.py (process, threads, contexts), profiles.py, modules.py
    what they say   check.py, report.py, command.py (`densecore overrides`)
"""

from __future__ import annotations

from torch_densecore.overrides.check import Report, reports
from torch_densecore.overrides.errors import DifferenceError, OverriddenOpError, OverrideError
from torch_densecore.overrides.report import never_hit
from torch_densecore.overrides.scope import active, apply, attach, override

__all__ = [
    "DifferenceError",
    "OverriddenOpError",
    "OverrideError",
    "Report",
    "active",
    "apply",
    "attach",
    "never_hit",
    "override",
    "reports",
]
