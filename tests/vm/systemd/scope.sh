# In a scope of systemd's the budget is what the scope's limit leaves.
nocturne submit -q --max-tokens 4 -p one >id
systemd-run --scope -q -p MemoryMax=256M -p MemorySwapMax=0 nocturne run -m /vm/small.gguf --raw --drain 2>said
cat said
says said 'system\.slice/run-.*\.scope/memory\.max'
says said '256\.0 MiB'
