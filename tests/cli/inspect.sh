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
