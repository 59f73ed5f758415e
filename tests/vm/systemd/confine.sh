# The worker starts itself again in a scope with limits by its plan, which is gone afterwards.
export NOCTURNE_MODEL=/vm/small.gguf NOCTURNE_MEMORY=160M NOCTURNE_SLOTS=2 NOCTURNE_RAW=on
nocturne run --confine require 2>said &
worker=$!
until_true grep -q loaded said
cat said
says said 'the kernel limits memory to '
unit=nocturne-$worker.scope
systemctl show -p ControlGroup -p MemoryMax -p MemoryHigh -p MemorySwapMax "$unit" >shown
cat shown
says shown "^MemoryMax=$((224 << 20))\$"
says shown "^MemoryHigh=$((192 << 20))\$"
says shown '^MemorySwapMax=0$'
group=$groups$(sed -n 's/^ControlGroup=//p' shown)
grep -qx $worker "$group/cgroup.procs" || fail 'it is not inside'
[ "$(cat /proc/$worker/oom_score_adj)" = 900 ] || fail 'oom_score_adj'
! tr '\0' '\n' </proc/$worker/environ | grep -q XDG_RUNTIME_DIR || fail 'its environment has changed'
kill $worker
wait $worker
until_true test ! -e "$group"

# Killed there for lack of memory: its group went with it, but the one above has counted.
nocturne submit -q --max-tokens 400 -p one >id
nocturne run --confine require 2>said &
worker=$!
until_true grep -q loaded said
systemctl set-property --runtime nocturne-$worker.scope MemoryMax=1M
status=0
wait $worker || status=$?
[ $status = 137 ] || fail "exit status $status"
status=0
nocturne run 2>said || status=$?
cat said
[ $status = 75 ] || fail "exit status $status after the kill"
says said "out of memory: the kernel killed the worker, process $worker \\(/sys/fs/cgroup/system.slice counts"
nocturne resume
nocturne run --drain
