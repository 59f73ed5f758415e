# What a format costs. --exact: the same figures on every machine.
small_model
mkmodel --arch llama --layers 2 --embd 64 --heads 4 --ff 128 --ctx 256 --vocab 512 --type Q4_0 -o q4.gguf > .out
mkmodel --arch llama --layers 2 --embd 64 --heads 4 --ff 128 --ctx 256 --vocab 600 -o wide.gguf > .out
i=0
while [ $i -lt 60 ]; do
    echo "Line $i: the north gate was closed at noon, and nobody asked why."
    i=$((i + 1))
done > text.txt
t nocturne eval --exact -c 128 -m model.gguf text.txt
t nocturne eval --exact -c 128 -m q4.gguf text.txt --against q4.gguf
t nocturne eval --exact -c 128 -m q4.gguf text.txt --against model.gguf
t nocturne eval --exact -c 128 -m model.gguf text.txt --save-logits saved -n 2
t nocturne eval --exact -c 128 -m q4.gguf text.txt --against saved -n 2
t nocturne eval --exact -c 128 -m q4.gguf text.txt --against saved
t nocturne eval --exact -c 64 -m q4.gguf text.txt --against saved
t nocturne eval --exact -c 128 -m q4.gguf text.txt --against wide.gguf
t nocturne eval --exact -c 128 -m q4.gguf text.txt --against text.txt
t nocturne eval -c 256 -m model.gguf .out
t nocturne eval -m model.gguf text.txt
t nocturne eval -m model.gguf none.txt -c 128
t nocturne eval text.txt
t nocturne eval -m model.gguf
