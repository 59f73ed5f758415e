# What the cases of nocturne.service may use besides lib.sh.

state=/var/lib/nocturne
drop_in=/etc/systemd/system/nocturne.service.d/case.conf

# The service as it is installed, stopped, with an empty queue; waits are cut short. Lines of its own for the
# configuration and for the drop-in.
new_service() { # CONFIGURATION [DROP-IN]
    systemctl stop nocturne.timer nocturne.service
    systemctl reset-failed nocturne.service || :
    systemd-sysusers
    rm -rf $state
    mkdir -p /etc/nocturne "$(dirname $drop_in)"
    printf '%s\n' 'raw = yes' 'report-every = 1s' "$1" >/etc/nocturne/config
    printf '%s\n' '[Service]' 'RestartSec=1' "${2:-}" >$drop_in
    systemctl daemon-reload
    cursor=$(journalctl -q -n 1 --show-cursor | sed -n 's/^-- cursor: //p')
}

# The program as the service's user, on its queue.
as_service() {
    runuser -u nocturne -- env NOCTURNE_DB=$state/queue.db nocturne "$@"
}

property() { # NAME
    systemctl show nocturne.service -p "$1" --value
}

is() { # NAME VALUE
    [ "$(property "$1")" = "$2" ]
}

# Shows the journal and ends the case unless a property is, or within a minute or two becomes, what it should.
becomes() { # NAME VALUE
    set +x
    tries=0
    until is "$1" "$2"; do
        tries=$((tries + 1))
        [ $tries -lt 200 ] || { journal && fail "$1 is $(property "$1"), not $2"; }
        sleep 0.5
    done
    set -x
}

journal() {
    journalctl -q -u nocturne.service -o cat --after-cursor "$cursor"
}

until_journal_says() { # PATTERN
    set +x
    tries=0
    until journal | grep -Eq -- "$1"; do
        tries=$((tries + 1))
        [ $tries -lt 200 ] || { journal && fail "the journal never says '$1'"; }
        sleep 0.5
    done
    set -x
}

n_done() {
    as_service list --json | grep -c '"state":.*"done"'
}

until_done() { # N
    set +x
    tries=0
    until [ "$(n_done)" = "$1" ]; do
        tries=$((tries + 1))
        [ $tries -lt 200 ] || { journal && fail "$(n_done) are done, not $1"; }
        sleep 0.5
    done
    set -x
}
