# The same answers, whatever happens to the worker on the way.
slow_model
export NOCTURNE_MODEL=model.gguf NOCTURNE_MEMORY=256M NOCTURNE_LEASE=2s
prompts() { nocturne submit -q --seed 5 --temperature 0.9 --max-tokens 200 -p one -p two -p three -p four; }
answers() { nocturne export --format jsonl | cksum; }
ids() { nocturne export | grep -o '"x_tokens_sha256":"[0-9a-f]*"' | cksum; }

export NOCTURNE_DB=calm.db
prompts > id
nocturne run --drain --raw 2> .err || cat .err
calm=$(answers)
calm_ids=$(ids)

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
[ "$(ids)" = "$calm_ids" ] && echo 'the same tokens'
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

echo '--- in the middle of thoughts'
mkmodel --arch llama --pre kimi-k2 --size 24M --ctx 512 --vocab 512 -o model.gguf > .out 2>&1 || cat .out
export NOCTURNE_CHAT_FORMAT=kimi-k3
think() { nocturne submit -q --seed 5 --temperature 0.9 --reasoning-budget 90 --max-tokens 150 -p one -p two; }
thoughts() { nocturne export 2> .err | grep -o '"content":.*"refusal"' | cksum; }
export NOCTURNE_DB=calm-thoughts.db
think > id
nocturne run --drain 2> .err || cat .err
calm=$(thoughts)
export NOCTURNE_DB=rough-thoughts.db
think > id
for signal in KILL TERM KILL; do
    rm -f .run
    nocturne run 2> .run &
    worker=$!
    until_true grep -q loaded .run
    sleep 0.3
    kill -$signal $worker
    wait $worker 2> .wait
    echo "$signal: $?"
done
nocturne run --drain --slots 1 2> .err || cat .err
[ "$(thoughts)" = "$calm" ] && echo 'the same thoughts and answers'
nocturne export 2> .err | grep -c reasoning_content
