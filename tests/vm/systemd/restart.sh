# Killed, it is started again; refused or paused with work left, it is not.
. /vm/service.sh
new_service 'model = /vm/small.gguf
memory = 160M'
systemctl start nocturne.service
kill -KILL "$(property MainPID)"
becomes NRestarts 1
becomes ActiveState active
systemctl stop nocturne.service

new_service 'model = /vm/small.gguf
memory = 16M'
systemctl start nocturne.service || :
becomes ActiveState failed
is ExecMainStatus 4 || { journal && fail "exit status $(property ExecMainStatus)"; }
is NRestarts 0

new_service 'model = /vm/small.gguf
memory = 160M' 'ExecStart=
ExecStart=/usr/bin/nocturne run --drain'
mkdir $state
chown nocturne: $state
as_service submit -q --max-tokens 4 -p one >id
as_service pause
systemctl start nocturne.service || :
becomes ActiveState inactive
is ExecMainStatus 75 || { journal && fail "exit status $(property ExecMainStatus)"; }
is Result success
is NRestarts 0
