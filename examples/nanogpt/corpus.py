"""A few hundred KB of English-like text, made by a small grammar from a fixed seed. Nothing is downloaded.

    python corpus.py [path]     writes input.txt, 65 distinct characters at most
"""

from __future__ import annotations

import random
import sys
from pathlib import Path

NAMES = "ALDER BRAM CORIN DAHLIA EDMUND FERN GISELA HOLM IVO JUNE KASPAR LENA MARTIN NELL OSKAR PETRA".split()
NOUNS = (
    "river stone winter harbour lantern garden letter mountain sailor kingdom shadow window orchard thunder candle meadow "
    "castle bridge morning forest island market feather mirror journey"
).split()
ADJECTIVES = "quiet golden broken ancient gentle bitter hollow silver distant faithful restless narrow".split()
VERBS = "carries follows remembers breaks finds guards loses calls crosses answers keeps forgets".split()
ADVERBS = "slowly never always gladly again tonight alone softly".split()
ENDINGS = ". . . ! ? ;".split()


def sentence(rng: random.Random) -> str:
    """One sentence of the grammar."""

    def noun_phrase() -> str:
        adjective = f"{rng.choice(ADJECTIVES)} " if rng.random() < 0.6 else ""
        return f"{rng.choice(['the', 'a', 'my', 'your', 'no'])} {adjective}{rng.choice(NOUNS)}"

    words = f"{noun_phrase()} {rng.choice(VERBS)} {noun_phrase()}"
    if rng.random() < 0.4:
        words += f" {rng.choice(ADVERBS)}"
    if rng.random() < 0.3:
        words += f", and {noun_phrase()} {rng.choice(VERBS)} {noun_phrase()}"
    return words[0].upper() + words[1:] + rng.choice(ENDINGS)


def make(size: int = 300_000, seed: int = 1) -> str:
    """At least `size` characters of dialogue; the same text on every machine."""
    rng = random.Random(seed)
    parts: list[str] = []
    length = 0
    while length < size:
        lines = "\n".join(sentence(rng) for _ in range(rng.randint(1, 4)))
        parts.append(f"{rng.choice(NAMES)}:\n{lines}\n\n")
        length += len(parts[-1])
    return "".join(parts)


if __name__ == "__main__":
    path = Path(sys.argv[1] if len(sys.argv) > 1 else "input.txt")
    path.write_text(make(), encoding="ascii")
    print(f"{path}: {path.stat().st_size} bytes")
