t nocturne
t nocturne --version
t nocturne statsu
t nocturne help nonsense
t nocturne status --jsno
t nocturne run --no-such-thing 22:00-07:00
t nocturne run -m model.gguf --window 22:00
t nocturne run -m model.gguf --window 'mon-fri,sat'
t nocturne run -m model.gguf --until noon
t nocturne run -m model.gguf --max-jobs 0
t nocturne run
t nocturne run -m model.gguf --io mmap
t nocturne run -m model.gguf --expert-policy fifo
t nocturne submit --max-tokens
t nocturne submit --max-tokens 0 -p x
t nocturne submit --temperature hot -p x
t nocturne submit -z
t nocturne status one two
t nocturne show
t nocturne list --state lost
t nocturne export --format xml
t nocturne export --follow -o file
t nocturne status
t nocturne help wait
