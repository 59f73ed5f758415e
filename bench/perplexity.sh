#!/bin/sh
# perplexity.sh FOLDER [MODEL] [TEXT] [CONTEXT]: nocturne and llama.cpp on the same model and text.
# FOLDER holds llama.cpp's programs (llama-perplexity). Fails when the exact figure is off by 1 % or more.
# With llama-ref in FOLDER, too, llama.cpp runs on the weights decoded to float32, with exact options.
set -eu
top=$(cd "$(dirname "$0")/.." && pwd)
peer=${1:?usage: perplexity.sh FOLDER_OF_LLAMA_CPP_PROGRAMS [MODEL] [TEXT] [CONTEXT]}
model=${2:-${XDG_CACHE_HOME:-$HOME/.cache}/nocturne/SmolLM2-135M-Instruct.Q4_1.gguf}
text=${3:-$top/tests/fixtures/eval/prose.txt}
context=${4:-512}
threads=${THREADS:-$(nproc)}
[ -x "$peer/llama-perplexity" ] || { echo "perplexity.sh: no llama-perplexity in $peer" >&2; exit 2; }
[ -r "$model" ] || { echo "perplexity.sh: cannot read $model" >&2; exit 2; }

ours() {
    "$top/build/nocturne" eval -m "$model" -c "$context" --threads "$threads" --log warn --json "$@" "$text" |
        python3 -c 'import json, sys; print("%.4f" % json.load(sys.stdin)["perplexity"]["mean"])'
}
theirs() {
    "$peer/llama-perplexity" -f "$text" -c "$context" -t "$threads" "$@" 2>&1 |
        sed -n 's/.*Final estimate: PPL = \([0-9.]*\).*/\1/p'
}
exact=$(ours --exact)
echo "nocturne --exact        $exact"
echo "nocturne                $(ours)"
default=$(theirs -m "$model")
echo "llama-perplexity        $default"
reference=$default
if [ -x "$peer/llama-ref" ]; then
    decoded=$(mktemp)
    trap 'rm -f "$decoded"' EXIT
    "$peer/llama-ref" dequant "$model" "$decoded" > /dev/null 2>&1
    reference=$(theirs -m "$decoded" --cache-type-k f32 --cache-type-v f32 --flash-attn off --no-repack)
    echo "llama-perplexity, exact $reference"
fi
awk -v a="$exact" -v b="$reference" 'BEGIN {
    d = 100 * (a / b - 1); printf "exact figure off by %+.4f %%\n", d; exit d > -1 && d < 1 ? 0 : 1 }'
