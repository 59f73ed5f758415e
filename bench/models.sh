#!/bin/sh
# models.sh MKMODEL [NAME...]: writes the models of the benchmarks that are not there yet (about 1 GB
# each, random weights, shaped as Llama models of that size) and prints their paths.
# They go to $BENCH_MODELS, by default ${XDG_CACHE_HOME:-~/.cache}/nocturne/bench.
set -eu
mkmodel=${1:?usage: models.sh MKMODEL [NAME...]}
shift
folder=${BENCH_MODELS:-${XDG_CACHE_HOME:-$HOME/.cache}/nocturne/bench}
mkdir -p "$folder"

# Where a format holds more parameters in 1 GB, the model is of a larger kind.
shape() {
    case $1 in
    Q8_0) echo --layers 16 --embd 2048 --heads 32 --kv-heads 8 --head-dim 64 --ff 8192 ;;
    IQ1_S) echo --layers 24 --embd 4096 --heads 32 --kv-heads 8 --head-dim 128 --ff 14336 ;;
    *) echo --layers 18 --embd 3072 --heads 24 --kv-heads 8 --head-dim 128 --ff 8192 ;;
    esac
}

for type in ${*:-Q4_K Q8_0 Q4_0 IQ4_XS IQ1_S}; do
    file=$folder/llama-1G-$type.gguf
    if [ ! -r "$file" ]; then
        # The temporary name ends as a model's does, and goes when the writer fails.
        rm -f "$folder"/.new-*.gguf
        "$mkmodel" --arch llama --type "$type" --vocab 32000 --tied $(shape "$type") \
            -o "$folder/.new-$type.gguf" >&2
        mv "$folder/.new-$type.gguf" "$file"
    fi
    echo "$file"
done
