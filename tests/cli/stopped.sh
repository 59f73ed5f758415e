# A worker that stands still beyond its lease is superseded and writes nothing when it wakes up.
small_model
export NOCTURNE_DB=q.db NOCTURNE_MODEL=model.gguf NOCTURNE_MEMORY=256M NOCTURNE_LEASE=1s
nocturne submit -q --max-tokens 250 -p one -p two > id
nocturne run --raw 2> .first &
first=$!
until_true grep -q loaded .first
# Stopped in the middle of a transaction it would hold the database's lock, against which nobody can
# do anything; so it is stopped outside of one.
until kill -STOP $first && nocturne submit -q --busy-timeout 100ms --batch more --max-tokens 20 -p three \
    > id 2> .err; do
    kill -CONT $first
    sleep 0.02
done
nocturne run --raw --drain 2> .second
echo "the second: $?"
before=$(nocturne export | cksum)
kill -CONT $first
wait $first
echo "the first: $?"
tail -1 .first
[ "$(nocturne export | cksum)" = "$before" ] && echo 'nothing was written'
nocturne list | grep -c done
