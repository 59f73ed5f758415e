small_model
export NOCTURNE_DB=q.db NOCTURNE_MODEL=model.gguf NOCTURNE_MEMORY=256M
mkdir docs
for i in 1 2 3 4 5; do echo "document $i" > docs/$i.txt; done
seq 1 2000 > docs/long.txt
nocturne submit -q --batch docs --max-tokens 12 docs > id
t nocturne run --drain
t nocturne run --drain --raw
t nocturne status
t nocturne wait docs
nocturne export -b docs -o good.jsonl --errors bad.jsonl; echo "[exit $?]"
wc -l < good.jsonl
grep -c '"code":"context_length_exceeded"' bad.jsonl
t nocturne retry -b docs 1.txt
t nocturne retry docs
t nocturne run --drain --raw
nocturne show -b docs long.txt | grep -c '^job'
nocturne submit -q --batch other --max-tokens 5 -p x > id
nocturne run --drain --raw --memory 1M 2> .err; echo "[exit $?]"; grep -c 'the budget is 1.0 MiB' .err
t nocturne run --drain --raw -m missing.gguf
nocturne pause
t nocturne run --drain --raw
nocturne resume 2> .err
t nocturne run --drain --raw
nocturne submit -q --batch quiet --max-tokens 5 docs/long.txt > id
t nocturne run --drain --raw --log warn
nocturne submit -q --batch loud --max-tokens 5 -p x > id
nocturne run --drain --raw --log debug 2>&1 | grep '^debug worker'
nocturne tail -b other prompt > tail.txt
nocturne export -b other --format jsonl | python3 -c '
import json, sys
row = json.load(sys.stdin)
print(row["state"], row["text"] + "\n" == open("tail.txt").read())'
echo "--- what waits for a batch that waits for a later time is left"
nocturne submit -q --batch morning --not-before +2h --max-tokens 5 -p x > id
nocturne submit -q --batch report --after morning --max-tokens 5 -p x --force > id
nocturne submit -q --batch first --max-tokens 5 -p a > id
nocturne submit -q --batch second --after first --max-tokens 5 -p b > id
nocturne submit -q --batch third --after second --max-tokens 5 -p c > id
t timeout 60 nocturne run --drain --raw
nocturne list --batches | awk '{ print $2, $(NF - 2), $NF }'
nocturne list -b report | grep -o 'held.*batch'
echo '--- a time that is over: nothing is begun'
nocturne submit -q -p late > id
t nocturne run --raw --until 2020-01-01T00:00
t nocturne status
