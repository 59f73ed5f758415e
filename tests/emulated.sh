#!/bin/sh
# Usage: emulated.sh BUILD EMULATOR [ARGUMENTS OF THE TEST RUNNER]
#
# Runs the tests of a build for another processor under a user-mode emulator. This kernel cannot
# execute such programs by itself, and the tests start some: for each there is a script of its name in
# BUILD/emulated, which the runner gives to the tests in the program's place.
set -eu
build=$(cd "$1" && pwd)
emulator=$2
shift 2

for program in nocturne tests/run tools/mkmodel; do
    mkdir -p "$(dirname "$build/emulated/$program")"
    printf '#!/bin/sh\nexec %s "%s" "$@"\n' "$emulator" "$build/$program" >"$build/emulated/$program"
    chmod +x "$build/emulated/$program"
done
# Set, it keeps the program from executing itself again, which the emulator cannot do.
export GOMP_SPINCOUNT="${GOMP_SPINCOUNT:-1000}"
NOCTURNE_EMULATED="$build/emulated" exec "$build/emulated/tests/run" "$@"
