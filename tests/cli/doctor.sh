small_model
export NOCTURNE_DB=q.db NOCTURNE_MEMORY=256M
# What depends on the machine is left out: figures, and whole lines about its kernel and its system.
checked() {
    nocturne doctor "$@" > .all
    status=$?
    grep -E -A1 '^[a-z]+ +(budget|model |database|queue|worker|time needed)|^$|^nothing|^[0-9]+ problem' .all |
        grep -v -E '^--$|SQLite|systemd|io_uring|model.s disk' | sed -E 's/ [0-9]+ warnings?$/ N warnings/; s/; ext.*/; PLACE/; s/needs .* budget is .*/needs SIZE, the budget is SIZE/; s/; (overlay|xfs|btrfs|tmpfs|an unknown) .*/; PLACE/; s/[0-9.]+ [KM]iB of/SIZE of/'
    echo "[exit $status]"
}
checked
checked -m missing.gguf
nocturne submit -q --max-tokens 5 -p x > id
nocturne pause 'the machine is needed' 2> .err
checked -m model.gguf
nocturne resume 2> .err
checked -m model.gguf --memory 100K
nocturne doctor --json | python3 -c '
import json, sys
o = json.load(sys.stdin)
print([f["check"] for f in o["findings"] if f["check"] in ("processor", "memory", "budget", "queue", "worker")])'
t nocturne doctor --window never
