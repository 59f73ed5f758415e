# What needs no server: lists, refusals, and verify on what is there. A port where nobody listens.
small_model
t nocturne pull
t nocturne pull ftp://host/model.gguf models
t nocturne pull http://host/ models
t nocturne pull http://host/models/..%2Fmodel.gguf models
t nocturne pull none.txt models
printf 'http://h/a\033[31m\n' > list.txt
t nocturne pull list.txt models
cat > list.txt <<'END'
# two files
http://127.0.0.1:9/a.gguf 12 e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855
http://127.0.0.1:9/b.gguf many
END
t nocturne pull list.txt models
printf 'http://127.0.0.1:9/a.gguf\nhttp://localhost:9/other/a.gguf\n' > list.txt
t nocturne pull list.txt models
printf 'http://127.0.0.1:9/a.gguf\nhttp://localhost:9/b.gguf\n' > list.txt
echo secret > token
t nocturne pull list.txt models --token-file token
t nocturne pull http://host/a.gguf models --token-file token
printf 'two words\n' > token
t nocturne pull https://host/a.gguf models --token-file token
t nocturne pull http://127.0.0.1:9/a.gguf models --give-up 1s | sed 's/after [0-9]* ms/after TIME/'
t nocturne pull http://127.0.0.1:9/a-00001-of-00003.gguf models --give-up 1s 2>&1 | sed 's/after [0-9]* ms/after TIME/' | grep -c 'a-0000[123]-of-00003.gguf: gave up'
ls -A models
t nocturne verify none
t nocturne verify models
mv model.gguf models
t nocturne verify models
cd models && sha256sum model.gguf > SHA256SUMS && cd ..
t nocturne verify models
t nocturne verify models --json
head -c 60000 models/model.gguf > models/short.gguf
t nocturne verify models
printf x | dd of=models/model.gguf bs=1 seek=9999 conv=notrunc 2> .out
rm models/short.gguf
t nocturne verify models
echo part > models/other.gguf.part
rm models/SHA256SUMS
t nocturne verify models
echo nonsense > models/SHA256SUMS
t nocturne verify models
# All parts of a split model are one thing; without hashes a missing one and a cut one are found.
mkdir split
mkmodel --arch llama --layers 2 --embd 64 --heads 4 --ff 128 --ctx 256 --vocab 512 --shards 3 -o split/s > .out
t nocturne verify split
mv split/s-00002-of-00003.gguf aside
t nocturne verify split
head -c 30000 aside > split/s-00002-of-00003.gguf
t nocturne verify split
