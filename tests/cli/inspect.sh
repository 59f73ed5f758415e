# What a model is made of, without the lines that depend on the machine.
shown() {
    echo "\$ nocturne inspect $*"
    nocturne inspect "$@" > .all 2>&1
    sed -e '/^fingerprint/d' -e '/^memory for/,$d' .all
}
mkmodel --arch kimi-k3 --layers 7 --type Q4_K --expert-type IQ1_S --shards 4 -o k3.gguf > .out
shown k3-00001-of-00004.gguf --io pread
mkmodel --arch llama --experts 8 --type Q8_0 -o mixtral.gguf > .out
shown mixtral.gguf --exact --io pread
mkmodel --arch kimi-k3 --omit blk.1.ffn_routed_up.weight --misshape blk.2.attn_kv_a_norm.weight -o bad.gguf > .out
shown bad.gguf
echo '--- larger than the budget'
least() { nocturne inspect "$1" --slots 1 --ctx 64 --json | sed -n 's/.*"smallest_bytes":[^0-9]*\([0-9]*\).*/\1/p'; }
expected() { nocturne inspect --slots 1 --ctx 64 "$@" | grep -c '^expected of a sequence'; }
slow_model
expected model.gguf --memory "$(least model.gguf)" --lookahead on
expected model.gguf --memory 20M
nocturne inspect mixtral.gguf --slots 1 --ctx 64 --memory "$(least mixtral.gguf)" | grep -o 'room for.*' | sed 's/for [0-9.e-]* /for N /'
nocturne submit -q -p one --max-tokens 4 > .out
nocturne run -m model.gguf --slots 1 --ctx 64 --raw --drain --memory "$(least model.gguf)" 2>&1 | grep -o 'layers: .*' | sed 's/: .* read/: SIZE read/; s/[0-9]*s waiting/TIME waiting/'
