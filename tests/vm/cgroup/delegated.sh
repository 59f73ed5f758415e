# A group that was given to the worker's user gets one below it, with the limits that --memory asks for, and is as it
# was when the worker has ended.
make_group delegated max
nocturne submit -q --max-tokens 30 -p 'one two three' >id
give_group delegated
within delegated as_user nocturne run -m /vm/experts.gguf --raw --drain --confine require --memory 160M --slots 1 \
    2>said &
worker=$!
until_true grep -q loaded said
own=$(echo $groups/delegated/nocturne-*)
grep '' "$own"/cgroup.procs "$own"/memory.max "$own"/memory.high "$own"/memory.oom.group
[ "$(cat "$own/cgroup.procs")" = "$(basename "$own" | sed s/.*-//)" ] || fail 'it is not in there'
[ "$(cat "$own/memory.high")" = $((192 << 20)) ] || fail 'the limit to slow down at is another'
[ "$(cat "$own/memory.max")" = $((224 << 20)) ] || fail 'the limit is another'
[ "$(cat "$own/memory.oom.group")" = 1 ] || fail 'it would not die as a whole'
[ "$(cat /proc/"$(cat "$own/cgroup.procs")"/oom_score_adj)" = 900 ] || fail 'others would die first'
wait $worker || { cat said && fail 'it did not get through'; }
cat said
[ ! -e "$own" ] || fail 'the group is still there'
[ -z "$(cat $groups/delegated/cgroup.subtree_control)" ] || fail 'the controller is still handed down'
