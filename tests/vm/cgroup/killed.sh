# Killed by the kernel for its group's memory, a worker loses nothing: the next one says what happened and leaves
# the queue paused; after a resume the answers are those of a night without it, and no job is to blame.
submit() {
    nocturne submit -q --max-tokens 30 --seed 5 -p 'one two three' -p 'four' >id
}
work() { # becomes the program, so that nothing but it is in the group
    exec nocturne run -m /vm/experts.gguf --raw --drain --memory 160M --slots 2 --report-every 1s
}
make_group doomed 240M
submit
within doomed work 2>said &
worker=$!
until_true grep -Eq '2 running, [1-9]' said
echo 8M >$groups/doomed/memory.max
status=0
wait $worker || status=$?
cat said
[ $status = 137 ] || fail "exit status $status"
[ "$(figure doomed memory.events oom_kill)" = 1 ] || fail 'it was not killed for memory'

echo 240M >$groups/doomed/memory.max
status=0
within doomed work 2>said || status=$?
cat said
[ $status = 75 ] || fail "exit status $status"
says said 'out of memory: the kernel killed the worker, process [0-9]+ \(/sys/fs/cgroup/doomed counts 1 killed'
nocturne resume
within doomed work
nocturne list --json >list
show_one >shown
[ "$(value_of shown resumed_tokens)" -gt 0 ] || fail 'it began anew'
[ "$(value_of shown lone_deaths)" = 0 ] || fail 'a job is blamed'
[ "$(grep -c '"state":.*"done"' list)" = 2 ] || { cat list && fail 'not all is done'; }
answers >answers.killed
rm q.db*
submit
(work)
answers >answers.calm
cmp answers.calm answers.killed
