#!/bin/sh
# peer.sh FOLDER [MODEL] [REPEATS]: nocturne and llama.cpp on the same file, threads and token counts
# (prefill 512, decode 128), interleaved. FOLDER holds llama.cpp's programs (llama-bench).
# nocturne spins as little as the program does (main sets GOMP_SPINCOUNT the same way).
# Prints each run, then the medians, their spread and the ratios. THREADS=, PREFILL=, DECODE= change it.
set -eu
top=$(cd "$(dirname "$0")/.." && pwd)
peer=${1:?usage: peer.sh FOLDER_OF_LLAMA_CPP_PROGRAMS [MODEL] [REPEATS]}
model=${2:-${XDG_CACHE_HOME:-$HOME/.cache}/nocturne/SmolLM2-135M-Instruct.Q4_1.gguf}
repeats=${3:-5}
threads=${THREADS:-$(nproc)}
prefill=${PREFILL:-512}
decode=${DECODE:-128}
tokens=${TOKENS:-$top/build/release/bench/tokens}
[ -x "$peer/llama-bench" ] || { echo "peer.sh: no llama-bench in $peer" >&2; exit 2; }
[ -x "$tokens" ] || { echo "peer.sh: build $tokens first (make bench)" >&2; exit 2; }
[ -r "$model" ] || { echo "peer.sh: cannot read $model" >&2; exit 2; }

runs=$(mktemp)
trap 'rm -f "$runs"' EXIT
echo "cpu: $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1), $threads threads"
i=0
while [ "$i" -lt "$repeats" ]; do
    ours=$(GOMP_SPINCOUNT=1000 "$tokens" "$model" --threads "$threads" --prefill "$prefill" --decode "$decode")
    theirs=$("$peer/llama-bench" -m "$model" -t "$threads" -p "$prefill" -n "$decode" -r 1 -o jsonl 2>/dev/null |
        python3 -c '
import json, sys
rows = [json.loads(line) for line in sys.stdin if line.strip()]
pick = lambda key: next(r["avg_ts"] for r in rows if r[key] > 0)
print("%.2f %.2f" % (pick("n_prompt"), pick("n_gen")))')
    echo "$ours" | awk -F, -v t="$theirs" '{ print $6, $7, t, $1 }' >> "$runs"
    tail -n 1 "$runs" | awk '{ printf "run: nocturne (%s) prefill %s decode %s | llama.cpp prefill %s decode %s tok/s\n", $5, $1, $2, $3, $4 }'
    i=$((i + 1))
done
python3 - "$runs" <<'PY'
import statistics, sys
rows = [[float(x) for x in line.split()[:4]] for line in open(sys.argv[1])]
for name, ours, theirs in (("prefill", 0, 2), ("decode", 1, 3)):
    ratios = sorted(r[ours] / r[theirs] for r in rows)
    print("%s: nocturne %.1f, llama.cpp %.1f tok/s (medians), ratio %.2f (%.2f to %.2f)" % (
        name, statistics.median(r[ours] for r in rows), statistics.median(r[theirs] for r in rows),
        statistics.median(ratios), ratios[0], ratios[-1]))
PY
