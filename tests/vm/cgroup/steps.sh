# Memory that stays short, with nothing but the kernel's own figures to go by: by one sign the worker gives back
# experts, by two it begins nothing more, and what runs is not harmed.
make_group short 200M
nocturne submit -q --max-tokens 400 --seed 5 -p 'one two three' >id
within short nocturne run -m /vm/experts.gguf --raw --memory 160M --slots 1 2>said &
worker=$!
until_true grep -q loaded said
within short sh -c 'while cat /vm/experts.gguf; do :; done >/dev/null' &
until_true grep -Eq 'memory is short: .*; gives back [0-9.]+ MiB of experts' said
nocturne submit -q --max-tokens 4 -p 'five' >id
until_true grep -q 'memory is short: .*; begins nothing more' said
says said '[0-9]+ times a second the control group was at its limit'
nocturne list
nocturne list | grep -q 'running *0 *1' || fail 'what ran does not run'
kill -TERM "$(pidof nocturne)"
wait $worker
says said 'stopped by a signal; the next run goes on from here'
