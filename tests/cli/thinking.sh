# A small Kimi-K3. Its weights are random, so it thinks until it is told to stop; the generic kernels
# make it say the same on every machine.
mkmodel --arch kimi-k3 --layers 4 --embd 64 --ff 96 --experts 4 --used 2 --expert-ff 32 --latent 32 \
    --ctx 1024 --vocab 512 -o model.gguf > .out 2>&1 || cat .out
export NOCTURNE_DB=q.db NOCTURNE_MODEL=model.gguf NOCTURNE_MEMORY=256M NOCTURNE_CHAT_FORMAT=kimi-k3
export NOCTURNE_ISA=generic

# What an export says about each request, without the words that random weights make.
look() {
    nocturne export --format openai 2> .err | python3 -c '
import json, sys
for line in sys.stdin:
    row = json.loads(line)
    body = row["response"]["body"]
    if "error" in body:
        print(row["custom_id"], body["error"]["message"])
        continue
    choice, usage = body["choices"][0], body["usage"]
    thought = choice["message"].get("reasoning_content")
    print(row["custom_id"], choice["finish_reason"], choice["x_finish_detail"],
          "answer" if choice["message"]["content"].strip() else "no answer",
          "no thought" if thought is None else "thought" if thought else "empty thought",
          usage["completion_tokens"], usage["completion_tokens_details"]["reasoning_tokens"],
          choice.get("empty_answer"))'
    sed 's/^/! /' .err
}

cat > batch.jsonl << 'END'
{"custom_id":"all-thought","messages":[{"role":"user","content":"Why?"}],"max_tokens":12}
{"custom_id":"budget","messages":[{"role":"user","content":"Why?"}],"max_tokens":60,"reasoning_budget":8}
{"custom_id":"at-once","messages":[{"role":"user","content":"Why?"}],"max_tokens":60,"thinking_budget_tokens":0}
{"custom_id":"off","messages":[{"role":"user","content":"Why?"}],"max_tokens":12,"reasoning":"off"}
{"custom_id":"none","messages":[{"role":"user","content":"Why?"}],"max_tokens":12,"reasoning_effort":"none"}
{"custom_id":"kwargs","messages":[{"role":"user","content":"Why?"}],"max_tokens":12,"chat_template_kwargs":{"thinking":false}}
{"custom_id":"no-such-effort","messages":[{"role":"user","content":"Why?"}],"max_tokens":12,"reasoning_effort":"huge"}
END
nocturne submit -q --batch think batch.jsonl > id
t nocturne run --drain --slots 3
look
nocturne status | sed -n '1,2p'
nocturne status --json | grep empty
nocturne list | awk '{ print $2, $3, $4 }'
t nocturne wait think
nocturne export --format csv 2> .err | grep all-thought | sed 's/.*,"empty/"empty/'
echo "--- what is empty runs again, and nothing else"
t nocturne retry
t nocturne retry --empty
t nocturne retry --empty -b think --max-tokens 60 --reasoning-budget 8
nocturne run --drain 2> .err; grep -c empty .err
look
nocturne status --json | grep empty
t nocturne retry --empty --reasoning-budget 8
nocturne show all-thought | grep -c '^thought:'
echo "--- a thought that may take every token does, and the answer from before stays"
t nocturne retry all-thought --max-tokens 12 --reasoning-budget 100
t nocturne run --drain
look | grep all-thought
echo "--- settings"
nocturne submit -q --batch set --reasoning off --max-tokens 5 -p x > id
nocturne submit -q --batch set2 --reasoning-budget 3 --max-tokens 40 -p y > id
t nocturne submit --reasoning sometimes -p x
t nocturne submit --reasoning-budget -2 -p x
nocturne run --drain --io pread --json > .json 2> .err; echo "[exit $?]"
look | grep prompt
python3 -c '
import json
run = json.load(open(".json"))
for name in "done failed returned io expert_misses".split():
    print(name, run[name])
# Three matrices of an expert, each in whole blocks of the file system.
print(run["reads"] == 3 * run["expert_misses"], run["bytes_read"] % 4096,
      0 < run["read_wait_ms"] < run["step_ms"],
      run["experts_wanted"] >= run["expert_hits"] + run["expert_misses"])'
echo "--- a format that does not think"
nocturne submit -q --batch plain --reasoning on --max-tokens 5 -p z > id
mkmodel --arch llama --layers 2 --embd 64 --heads 4 --ff 128 --ctx 256 --vocab 512 -o plain.gguf > .out 2>&1
nocturne run --drain -m plain.gguf --chat-format chatml > .out 2>&1; echo "[exit $?]"
look | grep 'does not think'
echo "--- who watches a thought is told of it"
mkmodel --arch kimi-k3 --layers 4 --embd 64 --ff 96 --experts 4 --used 2 --expert-ff 32 --latent 32 \
    --ctx 32768 --vocab 512 -o long.gguf > .out 2>&1
nocturne submit -q --batch long --max-tokens 30000 --reasoning-budget 29000 -p q > id
nocturne run -m long.gguf > .out.run 2>&1 &
worker=$!
nocturne tail -b long prompt > .tail 2>&1 &
watcher=$!
until_true grep -q 'thinks' .tail
cat .tail
kill $watcher; wait $watcher 2> .err
nocturne cancel -b long prompt > .out 2>&1
kill $worker; wait $worker; echo "[exit $?]"
