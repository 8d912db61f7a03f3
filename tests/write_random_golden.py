"""Writes random_golden.json: digests of values and generator states of the reference wheel, computed by the oracle."""

from __future__ import annotations

import json

import torch
from test_random import FILLS, GOLDEN, draw

from torch_densecore.oracle import Oracle


def main() -> None:
    oracle = Oracle()

    def reference(op: str, rest: tuple, size: int) -> torch.Tensor:
        oracle.set_rng_state(torch.get_rng_state())
        values = torch.empty(size)
        oracle.run(op, values, *rest)
        torch.set_rng_state(torch.as_tensor(oracle.get_rng_state()))
        return values

    digests = {name: draw(lambda size, op=op, rest=rest: reference(op, rest, size)) for name, (op, rest) in FILLS.items()}
    GOLDEN.write_text(json.dumps(digests, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
