export NOCTURNE_DB=q.db
nocturne submit -q --batch a -p one -p two > id
t nocturne submit -q --not-before +1h --batch later -p three
t nocturne status
t nocturne wait a --timeout 0.1
t nocturne cancel -b a prompt-1
t nocturne cancel -b a prompt-1
t nocturne export -b a
t nocturne export -b a --format csv
t nocturne retry -b a prompt-2
t nocturne retry a --max-tokens 5
nocturne show --json -b a prompt-1 | grep max_tokens
t nocturne cancel a later
t nocturne wait
t nocturne export -o all.jsonl --errors bad.jsonl
cat all.jsonl bad.jsonl
t nocturne export -o nowhere/x
ls
t nocturne pause 'until noon'
t nocturne status
t nocturne resume
t nocturne resume
echo "--- by the beginning of an id"
nocturne status "$(cut -c1-35 id)"
t nocturne show nothing
t nocturne show later
