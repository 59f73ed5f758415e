# At the end of its window the service gives back what it has within a minute; at the next one it goes on.
. /vm/service.sh
date -s '2026-03-03 06:00:00'
new_service 'model = /vm/experts.gguf
memory = 160M
window = 22:00-07:00'
systemctl start nocturne.service
as_service submit -q --max-tokens 60 --seed 5 -p one >id
until_journal_says '1 running, [1-9]'
date -s '2026-03-03 06:59:59'
start=$(cut -d. -f1 /proc/uptime)
tries=0
until as_service list --state queued | grep -q queued; do
    tries=$((tries + 1))
    [ $tries -lt 120 ] || { journal && fail 'the window has ended and it works on'; }
    sleep 0.5
done
echo "given back after $(($(cut -d. -f1 /proc/uptime) - start)) s"
journal | tail -n 3
is ActiveState active
property StatusText
date -s '2026-03-03 22:00:01'
until_done 1
show_one as_service >shown
[ "$(value_of shown resumed_tokens)" -gt 0 ] || fail 'it began anew'
systemctl stop nocturne.service
