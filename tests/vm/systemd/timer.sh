# The timer begins a night at its hour; one that was missed is not made up for.
. /vm/service.sh
new_service 'model = /vm/small.gguf
memory = 160M'
mkdir -p /etc/systemd/system/nocturne.timer.d
printf '%s\n' '[Timer]' 'AccuracySec=1s' >/etc/systemd/system/nocturne.timer.d/case.conf
systemctl daemon-reload
date -s '2026-03-03 21:00:00'
systemctl start nocturne.timer
systemctl stop nocturne.timer
date -s '2026-03-04 12:00:00'
systemctl start nocturne.timer
sleep 2
is ActiveState inactive
date -s '2026-03-04 21:59:58'
becomes ActiveState active
systemctl stop nocturne.timer nocturne.service
