#!/usr/bin/env python3
"""out-of-core.py BUILD: a model larger than memory, under several budgets, beside llama.cpp where its programs are given.

BUILD is the folder of nocturne's build (build/release). From the environment:
  SIZE=8G           the model's; it is made once, in $BENCH_MODELS or ~/.cache/nocturne/bench
  BUDGETS="4.5 2 all"  model:budget; `least` is the smallest that runs, `all` has room for everything
  TOKENS=64         decoded, from the first one after the load with dropped caches
  PREFILL=512       tokens of a prompt; 0: none
  REPEATS=3         runs of each, in turns
  PEER=FOLDER       of llama.cpp's programs with llama-ref; ADVICE="found random 128K" ways to map the file,
                    BATCHES="512 128 32" of its prefill
  IOS= POLICIES=    ways to read and to make room, run once each at the first budget
  RATE=             reading is throttled to so many bytes a second (300M: powers of 1000)
  SEED=1 THREADS=   (all cores); CSV=FILE: a line a run

What is the same for both: the ids, fed whatever the model itself would say; a control group whose limit is the budget (v1 or
v2, no swap); caches dropped before each run; threads. The load is apart. The peer maps the file: with the disk's read-ahead
as found, with 128 KiB (a loop device of its own), and with random advice; it is measured against its best.

Whatever the machine, every run is checked: the same logits at every budget, the bytes read, the memory. Exit status 1 when one
is not as it must be. Times are shown and never a reason to fail.
"""
import collections
import json
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BUILD = sys.argv[1] if len(sys.argv) == 2 else sys.exit(__doc__)


def setting(name, default):
    return os.environ.get(name) or default


SIZE, SEED = setting("SIZE", "8G"), setting("SEED", "1")
BUDGETS = setting("BUDGETS", "4.5 2 all").split()
TOKENS, PREFILL, REPEATS = (int(setting(n, d)) for n, d in (("TOKENS", 64), ("PREFILL", 512), ("REPEATS", 3)))
PEER, BATCHES, ADVICE = setting("PEER", ""), setting("BATCHES", "512 128 32").split(), setting("ADVICE", "found random 128K").split()
IOS, POLICIES = setting("IOS", "").split(), setting("POLICIES", "").split()
RATE = re.sub("[kMG]$", lambda unit: {"k": "000", "M": "000000", "G": "000000000"}[unit[0]], setting("RATE", ""))
CSV = setting("CSV", "")
THREADS = setting("THREADS", str(len(os.sched_getaffinity(0))))
CACHE = setting("BENCH_MODELS", os.path.join(setting("XDG_CACHE_HOME", os.path.expanduser("~/.cache")), "nocturne/bench"))
MODEL = os.path.join(CACHE, f"kimi-k3-{SIZE}-{SEED}.gguf")
IDS, ROUTING = MODEL[:-5] + ".ids", MODEL[:-5] + ".routing"


def say(text):
    print(text, flush=True)


def output(*command):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def read(path, otherwise=""):
    try:
        with open(path) as f:
            return f.read()
    except OSError:
        return otherwise


def write(path, text):
    with open(path, "w") as f:
        f.write(str(text))


# ---------------------------------------------------------------- the model

# 896 experts of 0.6 MB, 16 of them a token, in as many layers as the size takes.
SHAPE = """--arch kimi-k3 --type Q4_K --expert-type IQ1_S --embd 2048 --heads 16 --ff 4096 --ctx 65536 --vocab 8192 --experts 896
--used 16 --shared 2 --expert-ff 1024 --latent 1024 --dense-layers 1 --q-lora 512 --kv-lora 512 --nope 128 --rope 64 --v-dim 128
--kda-dim 128 --conv 4 --mla-every 4 --res-block 4 --topics 6""".split()


def make_model():
    """Into names of their own, so that what has the right name is whole."""
    os.makedirs(CACHE, exist_ok=True)
    new = os.path.join(CACHE, ".new-kimi-k3")
    say(f"making {MODEL}")
    output(f"{BUILD}/tools/mkmodel", *SHAPE, "--seed", SEED, "--size", SIZE, "--text", new + ".ids", "-o", new + ".gguf")
    figures = subprocess.run([f"{BUILD}/bench/out-of-core-routing", new + ".gguf", new + ".ids", "--balance", "1"],
                             stdout=subprocess.PIPE, text=True)
    say(figures.stdout.rstrip())
    if figures.returncode != 0:
        sys.exit("out-of-core: the model's routing is not what the benchmark is about")
    with open(new + ".gguf", "r+b") as f:  # a loop device has whole sectors only
        f.truncate(-(-f.seek(0, 2) // 4096) * 4096)
    write(ROUTING, figures.stdout)
    os.rename(new + ".ids", IDS)
    os.rename(new + ".gguf", MODEL)


# ---------------------------------------------------------------- a control group

class Group:
    """The processes of one run: their memory is limited, their reading throttled and counted."""
    ROOT = "/sys/fs/cgroup"
    V2 = os.path.exists(ROOT + "/cgroup.controllers")
    possible = False
    disks = []  # MAJOR:MINOR whose rate is throttled

    def __init__(self, limit):
        name = f"nocturne-bench-{os.getpid()}"
        self.limit = limit
        self.memory = f"{self.ROOT}/{name}" if self.V2 else f"{self.ROOT}/memory/{name}"
        self.blocks = self.memory if self.V2 else f"{self.ROOT}/blkio/{name}"
        self.statistics = self.blocks + ("/io.stat" if self.V2 else "/blkio.throttle.io_service_bytes")

    def __enter__(self):
        if self.possible:
            for path in {self.memory, self.blocks}:
                os.makedirs(path, exist_ok=True)
            self.restrict()
        return self

    def restrict(self):
        write(self.memory + ("/memory.max" if self.V2 else "/memory.limit_in_bytes"), self.limit)
        swap = (self.memory + "/memory.swap.max", 0) if self.V2 else (self.memory + "/memory.memsw.limit_in_bytes", self.limit)
        if os.path.exists(swap[0]):
            write(*swap)
        for disk in self.disks:
            if self.V2 and RATE:
                write(self.blocks + "/io.max", f"{disk} rbps={RATE}")
            elif not self.V2:  # which counts only where there is some limit
                write(self.blocks + "/blkio.throttle.read_bps_device", f"{disk} {RATE or 1 << 40}")

    def __exit__(self, *_):
        for path in {self.memory, self.blocks} if self.possible else ():
            os.rmdir(path)

    def join(self):
        for path in {self.memory, self.blocks} if self.possible else ():
            write(path + "/cgroup.procs", os.getpid())

    def run(self, *command):
        return subprocess.run(command, preexec_fn=self.join, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              env=dict(os.environ, GOMP_SPINCOUNT="1000"))

    def peak(self):
        return int(read(self.memory + ("/memory.peak" if self.V2 else "/memory.max_usage_in_bytes"), "-1"))

    def times_at_limit(self):
        """v1 tries memory and swap together first, where it counts them."""
        if self.V2:
            return int(re.search(r"^max (\d+)", read(self.memory + "/memory.events"), re.M).group(1))
        return sum(int(read(f"{self.memory}/memory.{which}failcnt", "0")) for which in ("", "memsw."))

    @classmethod
    def find_out(cls):
        """Whether this user may make groups here."""
        try:
            if cls.V2:
                write(cls.ROOT + "/cgroup.subtree_control", "+memory +io")
            cls.possible = True
            with cls(1 << 30) as group:
                cls.possible = group.run("true").returncode == 0
        except (OSError, subprocess.SubprocessError):
            cls.possible = False


def disk_of(path):
    number = os.stat(path).st_dev
    at = f"/sys/dev/block/{os.major(number)}:{os.minor(number)}"
    return read(at + "/../dev" if os.path.exists(at + "/partition") else at + "/dev").strip()


def drop_caches():
    os.sync()
    try:
        write("/proc/sys/vm/drop_caches", 3)
    except OSError:
        pass


# ---------------------------------------------------------------- runs

COLUMNS = """program phase setting budget limit peak at_limit rate tokens pass wall_s bytes process_bytes group_bytes hits misses
reading_s waiting_s major_faults load_s load_bytes slots experts least_read most_read ring_bytes isa io logits last""".split()
runs = []


def note(**run):
    """Figures as they were printed; the numbers among them are made numbers."""
    for name, value in run.items():
        if isinstance(value, str) and re.fullmatch(r"\d+(\.\d+)?", value) and name not in ("logits", "last", "budget"):
            run[name] = float(value) if "." in value else int(value)
    runs.append(run)
    speed = run["tokens"] / run["wall_s"]
    say(f"  {run['program']:9s} {run['phase']:7s} {run['setting']:9s} budget {run['budget']:5s} pass {run['pass']}: "
        f"{speed:7.2f} tok/s, {run['bytes'] / run['tokens'] / 1e6:7.1f} MB/token")


def device_rate():
    """Bytes a second of direct reads as large as an expert's matrix."""
    with Group(1 << 30) as group:
        done = group.run(f"{BUILD}/bench/out-of-core-rate", MODEL, "--seconds", "0.25")
    return float(done.stdout.split()[0])


def bytes_of(budget):
    size = os.path.getsize(MODEL)
    return 2 * size if budget == "all" else least() if budget == "least" else int(size / float(budget))


def least():
    """The smallest budget, as the refusal of a smaller one says it; to the next MiB, as --memory takes it."""
    done = subprocess.run([f"{BUILD}/bench/out-of-core", MODEL, IDS, "--memory", "1M", "--tokens", str(max(TOKENS, PREFILL))],
                          stderr=subprocess.PIPE, text=True)
    return int(re.search(r"--memory (\d+)M is the least", done.stderr).group(1)) << 20


def ours(budget, setting, phase, room=1, options=()):
    """room: the group's limit over the budget."""
    n = PREFILL if phase == "prefill" else TOKENS
    limit = bytes_of(budget)
    drop_caches()
    rate = device_rate()
    with Group(limit * room) as group:
        command = [f"{BUILD}/bench/out-of-core", MODEL, IDS, "--memory", str(limit), "--threads", THREADS, "--tokens", str(n),
                   "--passes", "2" if budget == "all" else "1", "--blkio", group.statistics, "--header", *options]
        done = group.run(*command, *(["--prefill"] if phase == "prefill" else []))
        if done.returncode != 0:
            sys.exit(f"out-of-core: {' '.join(command)}: {done.stderr}")
        peak, at_limit = (group.peak(), group.times_at_limit()) if group.possible else ("", "")
    rate = max(rate, device_rate())
    header, *lines = (line.split(",") for line in done.stdout.splitlines())
    for line in lines:
        got = dict(zip(header, line))
        note(program="nocturne", setting=setting, budget=budget, limit=limit, peak=peak, at_limit=at_limit, rate=rate,
             bytes=got["engine_bytes"], **{name: value for name, value in got.items() if name in COLUMNS})


def theirs(budget, setting, phase, path, *options):
    n_prompt, n_feed = (1, TOKENS - 1) if phase == "decode" else (PREFILL, 1)
    ids = read(IDS).strip().split(",")
    limit = bytes_of(budget)
    with tempfile.TemporaryDirectory() as folder:
        write(folder + "/prompt", ",".join(ids[:n_prompt]))
        write(folder + "/feed", ",".join(ids[n_prompt:n_prompt + n_feed]))
        drop_caches()
        with Group(limit) as group:
            done = group.run(f"{PEER}/llama-ref", "bench", path, str(n_feed), "--prompt", f"@{folder}/prompt", "--feed",
                             f"@{folder}/feed", "--threads", THREADS, *options)
            peak, at_limit = (group.peak(), group.times_at_limit()) if group.possible else ("", "")
    if done.returncode != 0:
        say(f"  llama.cpp failed: {done.stderr.strip()[-200:]}")
        return
    got = json.loads(done.stdout)
    phases = [got["prefill"]] + ([got["decode"]] if phase == "decode" else [])
    note(program="llama.cpp", phase=phase, setting=setting, budget=budget, limit=limit, peak=peak, at_limit=at_limit, rate="",
         **{"pass": 1}, tokens=sum(p["tokens"] for p in phases), wall_s=sum(p["seconds"] for p in phases), load_s=got["load_s"],
         bytes=sum(p["tokens"] * p["self_read_MB_per_tok"] * 1e6 for p in phases),
         major_faults=sum(p["tokens"] * p["majflt_per_tok"] for p in phases))


class Loop:
    """The model as a device of its own, which has a read-ahead of its own; path is None where that cannot be."""

    def __enter__(self):
        self.path = None
        if os.geteuid() == 0:
            done = subprocess.run(["losetup", "--read-only", "--find", "--show", "--direct-io=on", MODEL], stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE, text=True)
            self.path = done.stdout.strip() or None
        if self.path:
            name = os.path.basename(self.path)
            write(f"/sys/block/{name}/queue/read_ahead_kb", 128)
            Group.disks.append(read(f"/sys/block/{name}/dev").strip())
        return self.path

    def __exit__(self, *_):
        if self.path:
            subprocess.run(["losetup", "--detach", self.path], check=False)


def peer_decodes(budget, loop):
    if "found" in ADVICE:
        theirs(budget, "as found", "decode", MODEL)
    if "random" in ADVICE:
        theirs(budget, "random", "decode", MODEL, "--madvise", "random")
    if "128K" in ADVICE and loop:
        theirs(budget, "128 KiB", "decode", loop)


def repetition(turn, loop):
    for budget in BUDGETS:
        beside = PEER and budget not in ("all", "least")
        if beside and turn % 2:
            peer_decodes(budget, loop)
        ours(budget, "", "decode")
        if beside and not turn % 2:
            peer_decodes(budget, loop)
        if PREFILL:
            ours(budget, "", "prefill")
        for batch in BATCHES if beside and PREFILL and turn == 0 else ():
            theirs(budget, f"ub {batch}", "prefill", loop or MODEL, "--ubatch", batch)


def variations():
    """Once each: other ways to read and to make room, and a group of twice the budget, in which a peak above it would show."""
    for io in IOS:
        ours(BUDGETS[0], io, "decode", options=("--io", io))
    for policy in POLICIES:
        ours(BUDGETS[0], policy, "decode", options=("--expert-policy", policy))
    ours(BUDGETS[0], "roomy", "decode", room=2)
    if PREFILL:
        ours(BUDGETS[0], "roomy", "prefill", room=2)


# ---------------------------------------------------------------- what must hold

verdicts = collections.Counter()
CHARGES = 1 << 20  # what the kernel may have charged ahead; there are kernels whose count of hits stays 0 whatever happens


def must(holds, text):
    say(f"  {'ok  ' if holds else 'FAIL'} {text}")
    verdicts["passed" if holds else "failed"] += 1


def agrees(run, counted):
    """Within 1 %, but for layers that are read ahead: the engine counts them in the pass that uses them."""
    return abs(run[counted] - run["bytes"]) <= 0.01 * run["bytes"] + run["ring_bytes"]


def check():
    mine = [r for r in runs if r["program"] == "nocturne"]
    must(len({r["logits"] for r in mine if r["phase"] == "decode"}) == 1, "decoding gives the same logits, to the bit, in every run")
    if PREFILL:
        must(len({r["logits"] for r in mine if r["phase"] == "prefill"}) == 1, "and so does the prompt")
    if PREFILL == TOKENS:
        must(len({r["last"] for r in mine}) == 1, "the last token's are the same from a prompt and one by one")
    must(all(r["misses"] * r["least_read"] <= r["bytes"] - streamed(r) <= r["misses"] * r["most_read"] for r in mine),
         "the bytes read are the misses' matrices, rounded to the alignment of direct reads")
    must(all(agrees(r, "process_bytes") for r in mine), "/proc/self/io agrees within 1 %")
    must(all(r["major_faults"] == 0 for r in mine), "no major fault after the load")
    if not Group.possible:
        verdicts["skipped"] = 3
        say("  SKIPPED the peak of memory and the group's block statistics: no control group may be made here")
        return
    must(all(r["at_limit"] == 0 for r in mine), "the kernel counts no hit of the limit, which is the budget")
    must(all(r["peak"] < r["limit"] - CHARGES for r in mine), "and the peak, page cache included, stays below it")
    counted = [r for r in mine if r["group_bytes"] > 0]
    must(all(agrees(r, "group_bytes") for r in counted),
         f"the group's block statistics agree within 1 % ({len(counted)} of {len(mine)} passes have them)")


def streamed(run):
    """Of the trunk's layers, where those do not fit either: at the least budget only."""
    return run["bytes"] - run["misses"] * run["least_read"] if run["budget"] == "least" else 0


# ---------------------------------------------------------------- tables

def median(values):
    values = list(values)
    return statistics.median(values) if values else float("nan")


def of(program, phase, budget, setting=None, turn=1):
    return [r for r in runs if (r["program"], r["phase"], r["budget"], r["pass"]) == (program, phase, budget, turn) and
            (r["setting"] == setting if setting is not None else True)]


def speed(rows):
    return median(r["tokens"] / r["wall_s"] for r in rows)


def best_peer(phase, budget):
    settings = {r["setting"] for r in of("llama.cpp", phase, budget)}
    return max(((speed(of("llama.cpp", phase, budget, s)), s) for s in settings), default=(float("nan"), "-"))


def resident_seconds(phase):
    """For a token, or for the whole prompt: the pass in which every expert is here already."""
    rows = of("nocturne", phase, "all", "", 2)
    return median(r["wall_s"] / (r["tokens"] if phase == "decode" else 1) for r in rows)


def table(phase):
    say(f"\n{phase}, medians of {REPEATS}: the rate is the disk's, the better of just before and just after, reading the time that reads were under way")
    say("| program | budget | MB | tok/s (lowest to highest) | MB/token | hits | of the rate | reading | waiting | peak MB | at limit | "
        "major faults |\n|" + "---|" * 12)
    for key in dict.fromkeys((r["program"], r["setting"], r["budget"], r["pass"]) for r in runs if r["phase"] == phase):
        program, name, budget, turn = key
        rows = of(program, phase, budget, name, turn)
        speeds = sorted(r["tokens"] / r["wall_s"] for r in rows)
        cells = [f"{program} {name}".strip() + (" again" if turn == 2 else ""), budget, f"{rows[0]['limit'] / 1e6:.0f}",
                 f"{median(speeds):.2f} ({speeds[0]:.2f} to {speeds[-1]:.2f})",
                 f"{median(r['bytes'] / r['tokens'] for r in rows) / 1e6:.1f}"]
        if program == "nocturne":
            cells += [f"{median(r['hits'] / (r['hits'] + r['misses']) for r in rows):.0%}",
                      f"{median(r['bytes'] / r['wall_s'] / r['rate'] for r in rows):.0%}",
                      f"{median(r['reading_s'] / r['wall_s'] for r in rows):.0%}",
                      f"{median(r['waiting_s'] / r['wall_s'] for r in rows):.0%}"]
        else:
            cells += ["", "", "", ""]
        peak, hit = (f"{max(r[n] for r in rows)}" if Group.possible else "-" for n in ("peak", "at_limit"))
        cells += [f"{int(peak) / 1e6:.0f}" if peak != "-" else peak, hit, f"{median(r['major_faults'] for r in rows):.0f}"]
        say("| " + " | ".join(cells) + " |")


def bounds(phase):
    """What the disk and the same binary's arithmetic allow, run by run, and how near it came."""
    resident = resident_seconds(phase)
    for budget in BUDGETS:
        rows = of("nocturne", phase, budget, "")
        if budget == "all" or not rows or resident != resident:
            continue
        units = rows[0]["tokens"] if phase == "decode" else 1
        disk = median(r["bytes"] / r["rate"] / units for r in rows)
        taken = median(r["wall_s"] / units for r in rows)
        ratio = median(max(r["bytes"] / r["rate"] / units, resident) / (r["wall_s"] / units) for r in rows)
        say(f"{phase} at {budget}: {taken * 1e3:.1f} ms {'a token' if phase == 'decode' else 'for the prompt'}; the disk alone "
            f"{disk * 1e3:.1f}, everything resident {resident * 1e3:.1f}: {ratio:.0%} of the bound")
        theirs_best, name = best_peer(phase, budget)
        if theirs_best == theirs_best:
            say(f"{phase} at {budget}: {speed(rows):.2f} tok/s, {speed(rows) / theirs_best:.2f} times llama.cpp's best "
                f"({name}: {theirs_best:.2f})")
    if phase == "prefill" and of("nocturne", phase, "all"):
        distinct = median(r["misses"] for r in of("nocturne", phase, "all", ""))
        for budget in BUDGETS:
            for r in of("nocturne", phase, budget, ""):
                must(r["misses"] == distinct, f"prefill at {budget}: each of {distinct:.0f} experts is read once ({r['misses']} reads)")


def save():
    with open(CSV, "w") as f:
        f.write(",".join(COLUMNS) + "\n")
        for r in runs:
            f.write(",".join(str(r.get(name, "")) for name in COLUMNS) + "\n")


def machine():
    cpu = re.search(r"model name\s*: (.*)", read("/proc/cpuinfo"))
    commit = subprocess.run(["git", "-C", HERE, "describe", "--always", "--dirty"], stdout=subprocess.PIPE, text=True).stdout.strip()
    disk = disk_of(MODEL)
    ahead = read(f"/sys/dev/block/{disk}/queue/read_ahead_kb").strip()
    say(f"machine: {cpu.group(1) if cpu else '?'}, {THREADS} threads, Linux {os.uname().release}, disk {disk or '?'} "
        f"(read-ahead {ahead or '?'} KiB), load {read('/proc/loadavg').split(' ')[0]}; commit {commit or '?'}")
    say(f"model: {MODEL}, {os.path.getsize(MODEL) / 1e9:.2f} GB; routing over 512 tokens (wanted: neighbours share 0.30 to 0.44, "
        f"32 tokens touch 0.16 to 0.26):\n  {read(ROUTING).splitlines()[0]}\n  {read(ROUTING).splitlines()[-1]}")
    say(f"limits: control groups v{2 if Group.V2 else 1}" if Group.possible else
        "limits: SKIPPED, no control group may be made here: only nocturne keeps to its budget")
    if not os.access("/proc/sys/vm/drop_caches", os.W_OK):
        say("caches: not dropped, only root may")
    if RATE:
        say(f"reading is throttled to {int(RATE) / 1e6:.0f} MB/s" if Group.possible else "throttling: SKIPPED, no control group")


def main():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # by way of what puts groups and devices away
    if not all(os.path.exists(p) for p in (MODEL, IDS, ROUTING)):
        make_model()
    Group.find_out()
    Group.disks = [d for d in [disk_of(MODEL)] if d]
    machine()
    with Loop() as loop:
        for turn in range(REPEATS):
            say(f"repetition {turn + 1} of {REPEATS}")
            repetition(turn, loop)
        variations()
    for phase in ("decode", "prefill") if PREFILL else ("decode",):
        table(phase)
    say("")
    for phase in ("decode", "prefill") if PREFILL else ("decode",):
        bounds(phase)
    say("\nwhat must hold:")
    check()
    if CSV:
        save()
    say("%(passed)d passed, %(failed)d failed, %(skipped)d skipped" % collections.Counter(verdicts))
    sys.exit(1 if verdicts["failed"] else 0)


main()
