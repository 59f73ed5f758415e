#!/usr/bin/env python3
"""The rules of this tree that no other tool knows. Usage: check.py RULE FILE...

Prints one line for each finding, and nothing else; the exit status tells whether there were any.
"""
import os
import re
import sys

HERE = os.path.dirname(os.path.abspath(__file__))

FUNCTION_LINES = 100
KERNEL_LINES = 200  # below engine/kernels
FILE_LINES = 1500
FILE_LINES_WARN = 800


def read(path):
    with open(path, encoding="utf-8") as f:
        return f.read()


def blank(text):
    """The source with comments and literals blanked out; line numbers stay."""

    def keep_lines(match):
        found = match.group(0)
        if found.startswith(("/*", "//")):
            return re.sub(r"[^\n]", " ", found)
        return found[0] + re.sub(r"[^\n]", " ", found[1:-1]) + found[-1]

    return re.sub(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', keep_lines,
                  text, flags=re.S)


def line_of(text, offset):
    return text.count("\n", 0, offset) + 1


def table(name):
    """The rows "left: words" of a file beside this one."""
    rows = []
    for line in read(os.path.join(HERE, name)).splitlines():
        if line.strip() and not line.startswith("#"):
            left, right = line.split(":", 1)
            rows.append((left.strip(), right.split()))
    return rows


def inside(path, folder):
    return folder == "." or path == folder or path.startswith(folder + "/")


def home(path, folders):
    """The nearest of the folders that holds path."""
    found = [f for f in folders if inside(path, f)]
    return max(found, key=len) if found else None


def rule_layers(paths):
    rows = dict(table("layers.txt"))
    folders = [f for f in rows if not f.startswith("<")]
    for path in paths:
        own = home(path, folders)
        if own is None:
            yield f"{path}: its folder has no line in tests/lint/layers.txt"
            continue
        for match in re.finditer(r'^\s*#\s*include\s+([<"])([^>"]+)[>"]', read(path), re.M):
            kind, target = match.groups()
            where = f"{path}:{line_of(match.string, match.start())}"
            if kind == "<":
                users = rows.get(f"<{target}>")
                if users is not None and not any(inside(path, u) for u in users):
                    yield f"{where}: <{target}> is for {' '.join(users)}"
            elif not os.path.exists(target):
                if not os.path.exists(os.path.join("build/release", target)):
                    yield f'{where}: "{target}" is not written from the root'
            else:
                theirs = home(target, folders)
                if theirs != own and theirs not in rows[own] and target not in rows[own] \
                        and not any(theirs and inside(theirs, a) for a in open_folders(own, rows)):
                    yield f"{where}: {own} may not include {target}"


def open_folders(own, rows):
    """Programs see whole trees; a library sees the folders it names and not what lies below them."""
    return rows[own] if own in ("tools", "bench", "tests") else []


def rule_banned(paths):
    rows = table("banned.txt")
    for path in paths:
        banned = {c for folder, calls in rows if inside(path, folder) for c in calls}
        banned -= {c for folder, calls in rows if folder[:1] == "!" and inside(path, folder[1:])
                   for c in calls}
        text = blank(read(path))
        for match in re.finditer(r"(\.|->|\bstruct\s+|\w)?\b([a-z_]+)\s*\(", text):
            if match.group(2) in banned and not match.group(1):
                yield f"{path}:{line_of(text, match.start(2))}: {match.group(2)}() is banned here"


def rule_functions(paths):
    for path in paths:
        limit = KERNEL_LINES if inside(path, "engine/kernels") else FUNCTION_LINES
        lines = blank(read(path)).split("\n")
        start = None
        for number, line in enumerate(lines, 1):
            if line == "{":
                start = number
            elif line.startswith("}") and start is not None:
                if number - start - 1 > limit:
                    yield f"{path}:{start}: a function of {number - start - 1} lines, limit {limit}"
                start = None


def rule_files(paths):
    for path in paths:
        n = read(path).count("\n")
        if n > FILE_LINES:
            yield f"{path}: {n} lines, limit {FILE_LINES}"
        elif n > FILE_LINES_WARN:
            print(f"warning: {path}: {n} lines, better below {FILE_LINES_WARN}")


def rule_text(paths):
    rules = [
        (r"\b(TODO|FIXME|XXX|HACK)\b", "unfinished work is not committed", False),
        (r"\bgoto\s+(?!out\b)\w+", "the only label is out", True),
        (r"[^\x00-\x7f]", "source is ASCII; write \\u escapes", False),
        (r"[ \t]+$", "blanks at the end of a line", False),
        (r"^(?!static\b)\s*inline\b", "only static inline", True),
    ]
    for path in paths:
        text = read(path)
        code = blank(text)
        for pattern, why, in_code in rules:
            for match in re.finditer(pattern, code if in_code else text, re.M):
                yield f"{path}:{line_of(text, match.start())}: {why}"
        if path.endswith(".h"):
            name = re.sub(r"\W", "_", path).upper()
            found = re.search(r"^#ifndef (\w+)\n#define \1$", code, re.M)
            if not found or not name.endswith(found.group(1)):
                yield f"{path}: the include guard is not {name}"
            if not text.startswith("/*"):
                yield f"{path}: a header begins with what it owns and what stays true"


# The level of the log, the counters of injected faults, and what one process has once by its nature.
STATE_ALLOWED = {
    "base/alloc.c", "base/clock.c", "base/file.c", "base/log.c", "base/parallel_omp.c",
    "base/parallel_pthread.c",
}


def rule_state(paths):
    variable = re.compile(
        r"^(?:[ \t]*static[ \t]+|(?=[a-z_]))(?!typedef\b|return\b|extern\b|goto\b|else\b|case\b"
        r"|(?:struct|enum|union)[ \t]+\w+;)"
        r"(?:\w+[ \t*]+)+\w+(?:\[[^\]\n]*\])*[ \t]*(?:=|;)", re.M)
    for path in paths:
        if path in STATE_ALLOWED or not path.startswith(("base/", "queue/", "jobs/", "engine/")):
            continue
        text = blank(read(path))
        for match in variable.finditer(text):
            if not re.search(r"\bconst\b", match.group(0)):
                yield f"{path}:{line_of(text, match.start())}: state that is not the caller's"


# Tables whose every row stands for code. The others are data: it is enough that they are included.
CODE_TABLES = {
    "base/error.def", "batch/commands.def", "batch/options.def", "engine/model/archs.def",
    "engine/quant/quants.def", "jobs/kinds.def",
}


def rule_rows(paths):
    """Every row of a table of code names something that the code has; every table is used."""
    sources = {p: blank(read(p)) for p in paths if not p.endswith(".def")}
    words = set()
    members = set()
    for text in sources.values():
        words.update(w.lower() for w in re.findall(r"\w+", text))
        members.update(re.findall(r"(?:\.|->)(\w+)", text))
    for path in (p for p in paths if p.endswith(".def")):
        if not any(f'"{path}"' in read(p) for p in sources):
            yield f"{path}: nobody includes it"
        if path not in CODE_TABLES:
            continue
        text = blank(read(path))
        for match in re.finditer(r"^[A-Z][A-Z0-9_]*\((\"?[\w/]+)", text, re.M):
            ident = match.group(1).lower()
            pattern = re.compile(rf"\w+_{ident}(_\w+)?|{ident}_\w+")
            if ident not in members and not any(pattern.fullmatch(w) for w in words):
                yield f"{path}:{line_of(text, match.start())}: nothing in the code is for '{ident}'"


def main():
    rule, paths = sys.argv[1], sys.argv[2:]
    findings = list(globals()["rule_" + rule](paths))
    for finding in findings:
        print(finding)
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
