"""Writes pointwise_golden.json: digests of the reference wheel's results, computed by the oracle."""

from __future__ import annotations

import json

from elementwise import golden_of
from test_pointwise import CASES, GOLDEN

from torch_densecore.oracle import Oracle


def main() -> None:
    oracle = Oracle()
    digests = golden_of(lambda op, *args, **kwargs: oracle.call(op, *args, **kwargs), CASES)
    GOLDEN.write_text(json.dumps(digests, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
