# The service starts, is ready, has limits of its own, works on what is submitted and stops as it should.
. /vm/service.sh
new_service "model = /vm/experts.gguf
memory = 160M"
systemctl start nocturne.service
is ActiveState active
is User nocturne
[ "$(cat /proc/"$(property MainPID)"/comm)" = nocturne ] || fail 'the process has another name'
as_service submit -q --max-tokens 8 -p one -p two >id
# Who is in its group may submit, too.
setpriv --reuid=1234 --regid=1234 --groups="$(id -g nocturne)" env NOCTURNE_DB=$state/queue.db \
    nocturne submit -q --max-tokens 8 -p three >id
until_done 3
property StatusText
group=$groups$(property ControlGroup)
grep '' "$group"/nocturne-*/memory.max "$group"/nocturne-*/cgroup.procs
[ "$(cat "$group"/nocturne-*/memory.max)" = $((224 << 20)) ] || fail 'the limit is another'
[ "$(cat "$group"/nocturne-*/cgroup.procs)" = "$(property MainPID)" ] || fail 'it is not in its group'
systemctl stop nocturne.service
becomes ActiveState inactive
is Result success || { journal && fail 'it did not stop well'; }
is NRestarts 0
systemd-analyze security --no-pager nocturne.service | tail -n 1
