mkdir -p docs/sub docs/.hidden empty
echo 'first' > docs/a.txt
echo 'second' > docs/sub/b.md
echo 'unseen' > docs/.hidden/c.txt
t nocturne submit docs
t nocturne submit docs
t nocturne submit --force --batch again docs
t nocturne submit -p 'one prompt' -p 'and another' --batch prompts
echo 'from a pipe' > in
stdin=in t nocturne submit - --batch pipe
t nocturne list
echo '--- templates'
echo 'Say {{what}} about {{filename}}: {{document}}' > ask.txt
t nocturne submit -t ask.txt -v what=much --batch asked docs
nocturne show --json -b asked a.txt | grep '"content"'
t nocturne submit -t ask.txt docs
t nocturne submit -t ask.txt -v what=much -v who=me docs
t nocturne submit -v what=much docs
echo 'no document' > blind.txt
t nocturne submit -t blind.txt docs
echo '--- lines'
line() {
    printf '{"custom_id":"%s","method":"POST","url":"/v1/chat/completions","body":{"messages":[{"role":"user","content":"x"}]%s}}\n' "$1" "$2"
}
{ line one; line two; } > good.jsonl
t nocturne submit good.jsonl
{ line one; line two ',"n":2'; } > bad.jsonl
t nocturne submit bad.jsonl
{ line one; line two; line one; } > twice.jsonl
t nocturne submit twice.jsonl
{ line one; echo '{"custom_id":'; } > torn.jsonl
t nocturne submit torn.jsonl
line one ',"response_format":{"type":"json_object"}' > schema.jsonl
t nocturne submit schema.jsonl
echo '--- refused, and nothing half submitted'
t nocturne submit missing.txt
t nocturne submit empty
printf 'a\000b' > docs/sub/z.bin
t nocturne submit --force docs
t nocturne submit
t nocturne submit -p x docs
t nocturne list --batches
