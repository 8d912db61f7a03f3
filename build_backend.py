"""setuptools' build backend, which needs torch and ninja only where the extension is built.

DENSECORE_NO_EXTENSION=1 leaves the extension out: `DENSECORE_NO_EXTENSION=1 pip install .` needs no compiler, works with any
torch from 2.4 on, and brings everything that is pure Python (record, diff, explain, probe, verify, the pytest fixture).
"""

import os

from setuptools.build_meta import *  # noqa: F403  (a backend is its module's functions)

EXTENSION = ["torch==2.13.0", "ninja"]


def get_requires_for_build_wheel(config_settings: dict | None = None) -> list[str]:
    """What `pip install` puts into its build environment, besides setuptools."""
    return [] if os.environ.get("DENSECORE_NO_EXTENSION") == "1" else EXTENSION


get_requires_for_build_editable = get_requires_for_build_wheel
