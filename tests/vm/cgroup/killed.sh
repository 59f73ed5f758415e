# Killed by the kernel for its group's memory, a worker loses nothing: the next one goes on and the answers are
# the same.
submit() {
    nocturne submit -q --max-tokens 30 --seed 5 -p 'one two three' -p 'four' >id
}
make_group doomed 256M
submit
within doomed nocturne run -m /vm/experts.gguf --raw --drain --memory 160M --slots 2 --report-every 1s 2>said &
worker=$!
until_true grep -q loaded said
sleep 3
echo 8M >$groups/doomed/memory.max
status=0
wait $worker || status=$?
cat said
[ $status = 137 ] || fail "exit status $status"
[ "$(figure doomed memory.events oom_kill)" -ge 1 ] || fail 'it was not killed for memory'
nocturne list

echo 256M >$groups/doomed/memory.max
within doomed nocturne run -m /vm/experts.gguf --raw --drain --memory 160M --slots 2
answers >answers.killed
rm q.db*
submit
nocturne run -m /vm/experts.gguf --raw --drain --memory 160M --slots 2
answers >answers.calm
cmp answers.calm answers.killed
