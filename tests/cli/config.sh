mkdir -p .config/nocturne
cat > .config/nocturne/config <<'END'
# a comment
memory = 24G

slots=3
END
export NOCTURNE_SLOTS=5
t nocturne config
unset NOCTURNE_SLOTS
nocturne config --json | grep -A3 '"slots"'
echo 'slot = 3' >> .config/nocturne/config
t nocturne status
printf 'slots = many\n' > .config/nocturne/config
t nocturne status
printf 'drain = true\n' > .config/nocturne/config
t nocturne status
printf 'just words\n' > .config/nocturne/config
t nocturne status
rm .config/nocturne/config
export NOCTURNE_CTX=-3
t nocturne status
unset NOCTURNE_CTX
export NOCTURNE_COLOUR=blue
t nocturne config --log warn --db x.db | head -4
t nocturne status --config missing
