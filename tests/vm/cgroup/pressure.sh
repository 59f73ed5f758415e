# A neighbour in the group that takes its page cache makes for pressure; what an attempt suffered is recorded.
make_group squeezed 200M
grep -q total= $groups/squeezed/memory.pressure || fail 'the kernel tells no pressure of groups'
grep -q total= /proc/pressure/memory || fail 'the kernel tells no pressure'
nocturne submit -q --max-tokens 12 -p 'one two three' >id
# It is at the limit, and stays there, before the attempt begins: nothing depends on who is quicker.
within squeezed sh -c 'while cat /vm/experts.gguf; do :; done >/dev/null' &
at_limit() { [ "$(figure squeezed memory.events max)" -gt 100 ]; }
until_true at_limit
within squeezed nocturne run -m /vm/experts.gguf --raw --drain --memory 160M --slots 1 --memory-busy ignore 2>said ||
    { cat said && fail 'it did not get through'; }
cat said $groups/squeezed/memory.pressure $groups/squeezed/memory.events
show_one >shown
grep pressure shown
[ "$(value_of shown pressure_some_us)" -gt 0 ] || fail 'no pressure was recorded'
