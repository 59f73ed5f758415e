# Which experts are used, into a file. --exact: the same ones on every machine.
mkmodel --arch qwen3moe --layers 2 --embd 64 --heads 4 --ctx 256 --experts 16 --used 4 --expert-ff 64 --vocab 512 -o moe.gguf > .out
small_model
echo "The north gate was closed at noon, and nobody asked why." > text.txt
sizes() { wc -c < "$1"; }
t nocturne trace --exact -m moe.gguf -o one.trace -n 8 text.txt
t sizes one.trace
t nocturne trace --exact -m moe.gguf -o four.trace --tokens 1,2,3,4,5,6,7,8 --rows 4 --expert-policy lru
t nocturne trace --exact -m moe.gguf -o asked.trace -p Why? --max-tokens 3
t nocturne trace -m model.gguf -o none.trace text.txt
t nocturne trace -m moe.gguf -o none.trace
t nocturne trace -m moe.gguf -o none.trace text.txt -p Why?
t nocturne trace -m moe.gguf text.txt
t nocturne trace -m moe.gguf -o none.trace .nothing
t nocturne trace -m moe.gguf -o none/none.trace text.txt
t nocturne trace -m moe.gguf -o none.trace --tokens 1,512
t nocturne trace -m moe.gguf -o moe.gguf --tokens 1
ls *.trace
