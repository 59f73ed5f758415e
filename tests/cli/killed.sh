# The same answers, whatever happens to the worker on the way.
slow_model
export NOCTURNE_MODEL=model.gguf NOCTURNE_MEMORY=256M NOCTURNE_LEASE=2s
prompts() { nocturne submit -q --seed 5 --temperature 0.9 --max-tokens 200 -p one -p two -p three -p four; }
answers() { nocturne export --format jsonl | cksum; }

export NOCTURNE_DB=calm.db
prompts > id
nocturne run --drain --raw 2> .err || cat .err
calm=$(answers)

export NOCTURNE_DB=rough.db
prompts > id
for signal in KILL TERM KILL INT; do
    rm -f .run # or the old one is looked at before the new worker has begun
    nocturne run --raw --slots 2 2> .run &
    worker=$!
    until_true grep -q loaded .run
    sleep 0.2
    kill -$signal $worker
    wait $worker 2> .wait
    echo "$signal: $?"
done
nocturne run --drain --raw --slots 3 --chunk 1 2> .err || cat .err
[ "$(answers)" = "$calm" ] && echo 'the same answers'
nocturne list --state done | wc -l

echo '--- one worker at a time'
prompts > id
rm -f .run
nocturne run --raw 2> .run &
worker=$!
until_true grep -q loaded .run
t nocturne run --raw
kill -TERM $worker
wait $worker
