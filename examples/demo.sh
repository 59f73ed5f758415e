#!/bin/sh
# demo.sh MODEL: the main job on real input. Submits the documents beside this script with a summary
# template, drains the queue, exports the answers and shows how long each took.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
nocturne=${NOCTURNE:-$here/../build/nocturne}
model=${1:?usage: demo.sh MODEL.gguf}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export NOCTURNE_DB="$work/queue.db"
started=$(date +%s)

batch=$("$nocturne" submit -q --batch demo -t "$here/summary.txt" --max-tokens 96 "$here/documents")
echo "submitted $here/documents as $batch"
"$nocturne" run -m "$model" --memory "${MEMORY:-1G}" --slots 4 --drain
"$nocturne" export -o "$work/answers.jsonl" --batch "$batch"
python3 - "$work/answers.jsonl" <<'PY'
import json, sys
rows = [json.loads(line) for line in open(sys.argv[1], encoding="utf-8")]
for row in rows:
    answer = row["response"]["body"]["choices"][0]["message"]["content"].strip()
    print("\n--- %s\n%s" % (row["custom_id"], answer))
print("\n%-28s %8s %8s %12s %12s" % ("document", "prompt", "answer", "prefill t/s", "decode t/s"))
for row in rows:
    body = row["response"]["body"]
    use, took = body["usage"], body["timings"]
    print("%-28s %8d %8d %12.1f %12.1f" % (row["custom_id"][:28], use["prompt_tokens"],
          use["completion_tokens"], took["prompt_per_second"], took["predicted_per_second"]))
PY
echo
echo "done in $(($(date +%s) - started)) s; the answers were exported as JSONL, a line per document"
echo "the model is $model; ask it yourself:"
echo "  $nocturne submit -p 'Name three rivers.' && $nocturne run -m $model --memory 1G --drain && $nocturne export"
