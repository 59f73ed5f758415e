# A budget above memory.max would be killed for it: refused before anything is loaded, with both figures.
make_group small 256M
nocturne submit -q --max-tokens 4 -p one >id
status=0
within small nocturne run -m /vm/small.gguf --raw --drain --memory 512M 2>said || status=$?
cat said
[ "$status" = 4 ] || fail "exit status $status"
says said 'small/memory\.max'
says said '512\.0 MiB'
says said '256\.0 MiB'
