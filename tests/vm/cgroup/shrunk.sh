# A limit that is lowered while the worker is at work, but not below what it has, changes nothing.
nocturne submit -q --max-tokens 30 --seed 5 -p 'one two three' -p 'four' >id
make_group shrinking 512M
within shrinking nocturne run -m /vm/experts.gguf --raw --drain --memory 160M --slots 2 2>said &
worker=$!
until_true grep -q loaded said
sleep 1
used=$(figure shrinking memory.current)
echo $((used + (8 << 20))) >$groups/shrinking/memory.max
status=0
wait $worker || status=$?
cat said
[ $status = 0 ] || fail "exit status $status"
[ "$(figure shrinking memory.events oom_kill)" = 0 ] || fail 'something was killed'
