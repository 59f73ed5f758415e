small_model
export NOCTURNE_DB=q.db NOCTURNE_MODEL=model.gguf NOCTURNE_MEMORY=256M
t nocturne report
t nocturne runs
mkdir docs
for i in 1 2 3; do echo "document $i" > docs/$i.txt; done
echo '<script>alert("&")</script>' > 'docs/<script>&.txt'
seq 1 2000 > docs/long.txt
nocturne submit -q --batch docs --max-tokens 12 docs > id
nocturne run --drain --raw --max-jobs 2 --hook 'cat > .told # secret' 2> .err; echo "[exit $?]"
nocturne submit -q --batch more --max-tokens 5 -p x > id
nocturne run --drain --raw 2> .err; echo "[exit $?]"
short() {
    sed -E -e 's/[0-9.]+ s\b/SECONDS/g; s/[0-9,.e+]+ and [0-9,.e+]+ a second/RATES a second/' \
        -e 's/^model .*/model     MODEL/; s/^memory .*/memory    MEMORY/; s/ +(SECONDS)/ \1/g' \
        -e 's/ [0-9,.]+  enough/ RATE  enough/; s/ [0-9,.]+  drained/ RATE  drained/; s/ +RATE/ RATE/; s/ +\/S/ \/S/' \
        -e 's/Night of .*/Night of DAY/; s/loaded in SECONDS, .* read/loaded/'
}
nocturne runs | short
nocturne runs --limit 1 --jsonl | python3 -c '
import json, sys
r = json.load(sys.stdin)
print(r["run"], r["why"], r["status"], r["done"], r["failed"], r["decode_tokens"], r["model"])'
nocturne report | short | sed '/^Took longest/,/^Events/d'
nocturne report 1 | head -n 1
nocturne report --since 1h | head -n 1 | cut -c 1-6
echo "--- the page is well-formed, and nothing in it runs or is fetched"
nocturne report --html -o night.html
python3 - <<'PY'
import re, xml.dom.minidom
text = open("night.html", encoding="utf-8").read()
page = xml.dom.minidom.parseString(text.replace("<!DOCTYPE html>", "", 1))
print(sorted({e.tagName for e in page.getElementsByTagName("*")} & {"script", "link", "img", "iframe"}))
print(len(page.getElementsByTagName("figure")) >= 3, re.findall(r"(?:src|href|url\(|@import)", text))
print("&lt;script&gt;&amp;.txt" in text)
PY
echo "--- sums are those of the database"
nocturne report --json | python3 -c '
import json, sqlite3, sys
r = json.load(sys.stdin)
db = sqlite3.connect("q.db")
one = lambda sql: db.execute(sql).fetchone()[0]
s = r["sums"]
print(s["done"] == one("select count(*) from attempt where end = '"'done'"'"),
      s["failed"] == one("select count(*) from attempt where end = '"'failed'"'"),
      s["decode_tokens"] == one("select sum(decode_tokens) from attempt"),
      s["prefill_tokens"] == one("select sum(prefill_tokens) from attempt"))
print([f["code"] for f in r["failures"]], [x["why"] for x in r["runs"]])
print(r["course"]["decode_tokens"] == s["decode_tokens"], r["left"]["requests"]["queued"])'
nocturne report 1 --json | grep -c secret
nocturne report 1 --json | grep '"hook"'
t nocturne report 7
t nocturne report seven
t nocturne report --night 2020-01-01
t nocturne report --night tonight
t nocturne report --since sometime
t nocturne report --since 2099-01-01T00:00
t nocturne report 1 --since 2h
t nocturne report --html --json
t nocturne report -o file
echo "--- neither a database nor the log beside one is a place for a page"
printf '\067\177\006\202...' > other.db-wal
t nocturne report --html -o q.db
t nocturne report --html -o other.db-wal
