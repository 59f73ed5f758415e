# A model larger than memory.max: the same answers as without a limit, never at the limit, and the kernel's
# count of what was read of the disk agrees with ours.
model=/vm/experts.gguf
limit=$((160 << 20))
[ "$(stat -c %s $model)" -gt $limit ] || fail 'the model is not larger'

submit() {
    nocturne submit -q --max-tokens 6 --seed 5 -p 'one two three' -p 'four' >id
}
submit
nocturne run -m $model --raw --drain --memory 1G --slots 1
answers >answers.free
rm q.db*

make_group tight $limit
submit
within tight nocturne run -m $model --raw --drain --slots 1 --json >summary
answers >answers.tight
cmp answers.free answers.tight
[ "$(figure tight memory.events max)" = 0 ] || fail 'it was at the limit'
[ "$(figure tight memory.peak)" -le $limit ] || fail 'it was above the limit'

ours=$(value_of summary bytes_read)
kernels=$(value_of summary group_read_bytes)
echo "$ours bytes read, $kernels as the kernel counts for the group"
[ "$ours" -gt $((64 << 20)) ] || fail 'hardly anything was read'
[ $((ours - kernels)) -lt $((ours / 100)) ] && [ $((kernels - ours)) -lt $((ours / 100)) ] || fail 'they differ'
