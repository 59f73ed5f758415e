#!/usr/bin/env python3
"""make-grids.py [--check]: engine/quant/grids/*.def from tools/iq-grids.txt.

The grids of the IQ formats are ggml's constants (MIT licence): found by clustering, there is no formula
for them. The text holds them packed; a .def has one GRID(packed) an entry, which engine/quant/grids.c
expands. --check writes nothing and fails where a file is not what it would write.
Only the standard library is used.
"""
import hashlib
import os
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
OUT = os.path.join(ROOT, "engine", "quant", "grids")
PER_LINE = 7

# Entries, bits of a code, and the first 16 digits of the SHA-256 of the little-endian words.
TABLES = {
    "iq2_xxs": (256, 2, "915952ebc4af8ddb"),
    "iq2_xs": (512, 2, "f66435966ca8d64e"),
    "iq2_s": (1024, 2, "e6e75e121b65e8af"),
    "iq3_xxs": (256, 4, "15d5c59616fa9370"),
    "iq3_s": (512, 4, "881df6ab9508749c"),
    "iq1_s": (2048, 2, "e9ffebfc997ad602"),
}


def read_tables(path):
    """{name: bytes}"""
    digits = {}
    name = None
    with open(path) as f:
        for line in f:
            line = line.strip()
            if line.startswith("["):
                name = line.strip("[]").split()[0]
                digits[name] = ""
            elif line and not line.startswith("#"):
                digits[name] += line
    return {name: bytes.fromhex(text) for name, text in digits.items()}


def words_of(name, data):
    """The packed entries, after every check of their structure."""
    n, bits, digest = TABLES[name]
    words = [data[i] | data[i + 1] << 8 for i in range(0, len(data), 2)]
    largest = {2: 2, 4: 7}[bits]
    if len(words) != n or any(a >= b for a, b in zip(words, words[1:])):
        sys.exit("%s: not %d ascending entries" % (name, n))
    if any((w >> at & (1 << bits) - 1) > largest for w in words for at in range(0, 16, bits)):
        sys.exit("%s: a code above %d" % (name, largest))
    if not hashlib.sha256(data).hexdigest().startswith(digest):
        sys.exit("%s: checksum is not %s" % (name, digest))
    return words


def render(words):
    lines = ["/* Written by tools/make-grids.py. */"]
    for i in range(0, len(words), PER_LINE):
        lines.append(" ".join("GRID(0x%04x)" % w for w in words[i:i + PER_LINE]))
    return "\n".join(lines) + "\n"


def main():
    check = sys.argv[1:] == ["--check"]
    if sys.argv[1:] and not check:
        sys.exit(__doc__)
    tables = read_tables(os.path.join(ROOT, "tools", "iq-grids.txt"))
    if sorted(tables) != sorted(TABLES):
        sys.exit("tools/iq-grids.txt: not the six tables")
    stale = []
    for name in TABLES:
        path = os.path.join(OUT, name + ".def")
        text = render(words_of(name, tables[name]))
        if check:
            if not os.path.exists(path) or open(path).read() != text:
                stale.append(path)
            continue
        os.makedirs(OUT, exist_ok=True)
        with open(path, "w") as f:
            f.write(text)
    if stale:
        sys.exit("not as tools/make-grids.py writes them: " + " ".join(stale))


if __name__ == "__main__":
    main()
