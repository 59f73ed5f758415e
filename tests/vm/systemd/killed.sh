# Killed for lack of memory, the worker is started again, finds the queue paused with that reason and ends: no loop,
# and nothing is lost.
. /vm/service.sh
new_service 'model = /vm/experts.gguf
memory = 160M'
systemctl start nocturne.service
as_service submit -q --max-tokens 30 --seed 5 -p one >id
until_journal_says '1 running, [1-9]'
echo 8M >"$(echo $groups"$(property ControlGroup)"/nocturne-*)/memory.max"
until_journal_says "Failed with result 'oom-kill'"
until_journal_says 'the queue is paused with work left: out of memory: the kernel killed the worker'
becomes ActiveState inactive
is Result success
is ExecMainStatus 75
as_service status >status
says status '^paused +out of memory: the kernel killed the worker'
sleep 3
is ActiveState inactive
as_service resume
systemctl start nocturne.service
until_done 1
show_one as_service >shown
[ "$(value_of shown resumed_tokens)" -gt 0 ] || fail 'it began anew'
systemctl stop nocturne.service
