# What every case may use.

# Runs a command and shows it with all it says: stderr lines behind "! ", then the exit status.
t() {
    echo "\$ $*"
    "$@" > .out 2> .err < "${stdin:-/dev/null}"
    status=$?
    cat .out
    sed 's/^/! /' .err
    [ "$status" = 0 ] || echo "[exit $status]"
}

# A model of random weights: fast, and as deterministic as a real one.
small_model() {
    mkmodel --arch llama --layers 2 --embd 64 --heads 4 --ff 128 --ctx 256 --vocab 512 -o model.gguf \
        > .out 2>&1 || cat .out
}

# One that takes its time, so that there is something to interrupt.
slow_model() {
    mkmodel --arch llama --size 24M --ctx 512 --vocab 512 -o model.gguf > .out 2>&1 || cat .out
}

# Waits until a command succeeds, ten seconds at most.
until_true() {
    tries=0
    until "$@" > .out 2>&1; do
        tries=$((tries + 1))
        [ "$tries" -lt 200 ] || { echo "never: $*"; return; }
        sleep 0.05
    done
}
