# Budgets, each in a process of its own; what was run is kept, what differs is found.
small_model
mkdir tmp
export TMPDIR="$PWD/tmp"
export NOCTURNE_MODEL=model.gguf NOCTURNE_WINDOW='mon 03:00-03:01' NOCTURNE_CHAT_FORMAT=chatml
figures() {
    sed -E 's/: [0-9.e+]+ tokens\/s, prompt [0-9.e+]+\/s/: RATES/; s/about [0-9]+s left/about TIME left/
        s/^(.*MiB +[1-9]) .*/\1 FIGURES/; s/ needs [0-9.]+ MiB .*, the budget/ needs SIZE, the budget/
        s/--memory [0-9]+M /--memory SIZE /' .out .err | tr -s ' '
}
sweep() {
    echo "\$ nocturne sweep $*"
    nocturne sweep --slots 1 --ctx 64 --tokens 4 --prompt-tokens 9 "$@" > .out 2> .err
    status=$?
    figures
    [ "$status" = 0 ] || echo "[exit $status]"
}
sweep --budgets 160M,20M --repeat 2 -o runs.csv
cut -d, -f1-3,14,15 runs.csv
echo '--- goes on: nothing is left, then one repetition more'
sweep --budgets 160M,20M --repeat 2 -o runs.csv --svg plot.svg --html page.html
head -c 4 plot.svg && echo && head -c 15 page.html && echo
sweep --budgets 160M --repeat 3 -o runs.csv
nocturne sweep --slots 1 --ctx 64 --tokens 4 --prompt-tokens 9 --budgets 160M,20M --repeat 3 -o runs.csv --json 2> .err |
    grep -E '"(state|runs|prompt_tokens|tokens)":' | sort | uniq -c
echo '--- another request, and tokens that are not the same'
sweep --budgets 160M --repeat 3 -o runs.csv --tokens 5 | sed -E 's/[0-9a-f]{16}/KEY/g'
sed '2,$s/"[0-9a-f]\{64\}"/"0000000000000000000000000000000000000000000000000000000000000000"/' runs.csv | head -n 2 > other.csv
grep -c '"0000' other.csv
sed '1d;/refused/d' runs.csv | tail -n 1 >> other.csv
sweep --budgets 160M --repeat 4 -o other.csv | sed 's/sha256 .*)/sha256 DIGESTS)/'
echo '--- a GPU that others use, in the machine'"'"'s own memory, is not waited for'
printf 'device - 0 NVIDIA GB10\nprocess 0 1 1073741824\n' > nvml.txt
export NVML_FAKE="$PWD/nvml.txt" LD_LIBRARY_PATH="$(dirname "$(readlink -f "$(command -v nocturne)")")/tests/nvml"
(unset NOCTURNE_WINDOW; nocturne run --memory 160M --until +1s 2>&1) | grep -o 'GPU 0 is in use'
sweep --budgets 160M --repeat 1
unset NVML_FAKE LD_LIBRARY_PATH
echo '--- stopped'
nocturne sweep --slots 1 --ctx 64 --tokens 4 --prompt-tokens 9 --budgets 160M --repeat 100 -o long.csv > .out 2> .run &
sweeping=$!
until_true grep -q '2 of 100' .run
kill -INT $sweeping
wait $sweeping
echo "exit $?"
tail -n 1 .run
ls tmp
echo '--- a plot that cannot be written does not take the figures with it'
sweep --budgets 160M --repeat 1 -o runs.csv --html runs.csv
sweep --budgets 160M --repeat 1 --svg /dev/null
t nocturne sweep --budgets some
t nocturne sweep -p what --prompt-tokens 5
t nocturne sweep --tokens 300
t nocturne sweep -m missing.gguf
