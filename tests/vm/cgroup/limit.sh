# Without --memory the budget is what the group's memory.max leaves, and the program says whose limit it is.
make_group limited 256M
nocturne submit -q --max-tokens 4 -p one >id
within limited nocturne run -m /vm/small.gguf --raw --drain 2>said
cat said
says said 'limited/memory\.max'
says said '256\.0 MiB'
