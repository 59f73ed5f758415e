# A worker that stands still is ended by the watchdog, and the next one goes on.
. /vm/service.sh
new_service 'model = /vm/experts.gguf
memory = 160M' 'WatchdogSec=8
TimeoutAbortSec=5'
systemctl start nocturne.service
first=$(property MainPID)
as_service submit -q --max-tokens 40 --seed 5 -p one >id
until_journal_says '1 running, [1-9]'
kill -STOP "$first"
until_journal_says "Failed with result 'watchdog'"
becomes NRestarts 1
becomes ActiveState active
[ "$(property MainPID)" != "$first" ]
until_done 1
systemctl stop nocturne.service
