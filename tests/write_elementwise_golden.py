"""Writes elementwise_golden.json: digests of the reference wheel's results, computed by the oracle."""

from __future__ import annotations

import json

import test_activation
import test_unary
from elementwise import GOLDEN, golden_of

from torch_densecore.oracle import Oracle


def main() -> None:
    oracle = Oracle()
    cases = {**test_unary.CASES, **test_activation.CASES}
    digests = golden_of(lambda op, *args, **kwargs: oracle.call(op, *args, **kwargs), cases)
    GOLDEN.write_text(json.dumps(digests, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
