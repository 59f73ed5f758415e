#!/bin/sh
# peer.sh FOLDER MODEL...: nocturne and llama.cpp on the same files, threads and token counts, interleaved.
# FOLDER holds llama.cpp's programs (llama-bench). Prints each run and, last, one table.
#
# Environment: REPEATS= runs of each program on each model (5), as long as they fit SECONDS_A_MODEL=
# (unlimited), but one at least; THREADS= PREFILL= DECODE= (all cores, 512, 128); ISA= nocturne's (auto).
#
# The same work for both: prefill from an empty cache, then decoding from an empty one. llama-bench's
# warm-up would repeat the whole prefill, so a short prefill takes its place (nocturne's bench has such a
# row of its own). nocturne's threads spin as little as the program's do (main sets GOMP_SPINCOUNT so).
# Who goes first alternates. A ratio is of two runs side by side; where a program fails, the row says so.
set -eu
top=$(cd "$(dirname "$0")/.." && pwd)
usage="usage: peer.sh FOLDER_OF_LLAMA_CPP_PROGRAMS MODEL..."
peer=${1:?$usage}
: "${2:?$usage}"
shift
repeats=${REPEATS:-5}
seconds=${SECONDS_A_MODEL:-1000000}
threads=${THREADS:-$(nproc)}
prefill=${PREFILL:-512}
decode=${DECODE:-128}
tokens=${TOKENS:-$top/build/release/bench/tokens}
[ -x "$peer/llama-bench" ] || { echo "peer.sh: no llama-bench in $peer" >&2; exit 2; }
[ -x "$tokens" ] || { echo "peer.sh: build $tokens first (make benches)" >&2; exit 2; }
for model; do
    [ -r "$model" ] || { echo "peer.sh: cannot read $model (make bench-models?)" >&2; exit 2; }
done

runs=$(mktemp)
trap 'rm -f "$runs"' EXIT

# Each prints "PREFILL DECODE ISA" in tokens/s, or "- - failed".
ours() {
    GOMP_SPINCOUNT=${GOMP_SPINCOUNT:-1000} "$tokens" "$1" --isa "${ISA:-auto}" --threads "$threads" \
        --prefill "$prefill" --decode "$decode" --depth 0 |
        awk -F, 'NF == 7 { print $6, $7, $1; ok = 1 } END { if (!ok) print "- - failed" }'
}

theirs() {
    "$peer/llama-bench" -m "$1" -t "$threads" -p "16,$prefill" -n "$decode" -r 1 --no-warmup \
        -o jsonl 2>/dev/null | python3 -c '
import json, sys
rows = [json.loads(line) for line in sys.stdin if line.strip()]
pick = lambda p, n: next((r["avg_ts"] for r in rows if (r["n_prompt"], r["n_gen"]) == (p, n)), None)
speeds = pick(int(sys.argv[1]), 0), pick(0, int(sys.argv[2]))
print("%.2f %.2f llama.cpp" % speeds if None not in speeds else "- - failed")' "$prefill" "$decode"
}

one_pair() {
    if [ $(($2 % 2)) -eq 0 ]; then
        a=$(ours "$1") b=$(theirs "$1")
    else
        b=$(theirs "$1") a=$(ours "$1")
    fi
    echo "$(basename "$1" .gguf) $a $b" >> "$runs"
    echo "$a $b" | awk -v m="$(basename "$1")" '{
        printf "%s: nocturne (%s) prefill %s decode %s | llama.cpp prefill %s decode %s tok/s\n",
            m, $3, $1, $2, $4, $5 }'
}

echo "cpu: $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1), $threads threads, prefill $prefill, decode $decode"
echo "load average at the start: $(cut -d' ' -f1-3 /proc/loadavg)"
for model; do
    start=$(date +%s)
    i=0
    while :; do
        one_pair "$model" "$i"
        i=$((i + 1))
        used=$(($(date +%s) - start))
        [ "$i" -lt "$repeats" ] && [ $((used + used / i)) -le "$seconds" ] || break
    done
done

python3 - "$runs" <<'PY'
import statistics, sys
models = {}
for line in open(sys.argv[1]):
    name, *row = line.split()
    models.setdefault(name, []).append(row)

def cells(rows, ours, theirs):
    rows = [(float(r[ours]), float(r[theirs])) for r in rows if "-" not in (r[ours], r[theirs])]
    if not rows:
        return "| failed | | "
    ratios = sorted(a / b for a, b in rows)
    return "| %.1f | %.1f | %.2f (%.2f to %.2f) " % (
        statistics.median(a for a, _ in rows), statistics.median(b for _, b in rows),
        statistics.median(ratios), ratios[0], ratios[-1])

print("\n| model | isa | runs | prefill tok/s | llama.cpp | ratio | decode tok/s | llama.cpp | ratio |")
print("|---|---|---|---|---|---|---|---|---|")
for name, rows in models.items():
    print("| %s | %s | %d %s%s|" % (name, rows[0][2], len(rows), cells(rows, 0, 3), cells(rows, 1, 4)))
PY
