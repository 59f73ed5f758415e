# In a scope of systemd's the budget is what the scope's limit leaves; outside of one the program asks for one.
nocturne submit -q --max-tokens 4 -p one >id
systemd-run --scope -q -p MemoryMax=256M -p MemorySwapMax=0 nocturne run -m /vm/small.gguf --raw --drain 2>said
cat said
says said 'system\.slice/run-.*\.scope/memory\.max leaves'
says said '256\.0 MiB'

nocturne submit -q --max-tokens 4 -p one >id
nocturne run -m /vm/small.gguf --raw --drain --confine require --memory 160M 2>said
cat said
says said 'the kernel limits memory to 192\.0 MiB: .*/system\.slice/nocturne-[0-9]+\.scope/memory\.high'
