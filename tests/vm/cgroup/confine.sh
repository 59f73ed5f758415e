# The worker's own group behind --memory: with which limits, where it may be, and that it goes again.
export NOCTURNE_MODEL=/vm/small.gguf NOCTURNE_MEMORY=160M NOCTURNE_SLOTS=2 NOCTURNE_RAW=on
own_group() { # FILE
    sed -n 's/.*control group //p' "$1"
}

# At the top, which gives its groups the controller anyway.
nocturne run --confine require 2>said &
worker=$!
until_true grep -q loaded said
group=$(own_group said)
[ "$group" = $groups/nocturne-$worker ] || fail "in '$group'"
grep -qx $worker "$group/cgroup.procs" || fail 'it is not inside'
[ "$(cat "$group/memory.max")" = $((224 << 20)) ] || fail 'memory.max'
[ "$(cat "$group/memory.high")" = $((192 << 20)) ] || fail 'memory.high'
[ "$(cat "$group/memory.oom.group")" = 1 ] || fail 'memory.oom.group'
[ ! -e "$group/memory.swap.max" ] || [ "$(cat "$group/memory.swap.max")" = 0 ] || fail 'memory.swap.max'
[ "$(cat /proc/$worker/oom_score_adj)" = 900 ] || fail 'oom_score_adj'
kill $worker
wait $worker
[ ! -e "$group" ] || fail 'the group is still there'

# Nobody gave that one away: nothing is changed, and it works without; but not if it is required.
make_group plain 1G
within plain nocturne run --drain 2>said
says said 'no limit of the kernel stands behind --memory here: .*/plain is not delegated'
status=0
within plain nocturne run --drain --confine require 2>said || status=$?
[ $status = 4 ] || fail "exit status $status where there is no means"
[ -z "$(cat $groups/plain/cgroup.subtree_control)" ] || fail 'a controller was enabled'
within plain true

# A user's own, but others are in it: no controller can be enabled, and what was begun is undone.
make_group shared 1G
give_group shared
sleep 60 &
echo $! >$groups/shared/cgroup.procs
within shared as_user nocturne run --drain 2>said
cat said
says said 'no limit of the kernel stands behind --memory here: .*; other processes are in'
[ -z "$(ls -d $groups/shared/nocturne-* 2>/dev/null)" ] || fail 'an attempt was left behind'
kill $!

# Out of memory inside: it is known by what the group counted, and the group goes.
export NOCTURNE_DB=own.db # the first one is the user's now
nocturne submit -q --max-tokens 400 -p one >id
nocturne run --confine require 2>said &
worker=$!
until_true grep -q loaded said
group=$(own_group said)
echo 1M >"$group/memory.max"
status=0
wait $worker || status=$?
[ $status = 137 ] || fail "exit status $status"
status=0
nocturne run 2>said || status=$?
cat said
[ $status = 75 ] || fail "exit status $status after the kill"
says said "out of memory: the kernel killed the worker, process $worker \\($group counts [0-9]+ killed; limit 1.0 MiB"
[ ! -e "$group" ] || fail 'the group is still there'
nocturne resume
nocturne run --drain 2>said
