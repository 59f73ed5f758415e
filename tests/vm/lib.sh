# What every case in the emulated machine may use. A command that fails ends the case, unless it is asked about.

groups=/sys/fs/cgroup

fail() {
    echo "$*"
    exit 1
}

skip() {
    echo "$*"
    exit 77
}

# An empty group with that limit. What is in it when the case ends is killed: neighbours among it.
make_group() { # NAME LIMIT
    mkdir "$groups/$1"
    echo "$2" >"$groups/$1/memory.max"
    made="${made:-} $groups/$1"
    trap 'for group in $made; do echo 1 >"$group/cgroup.kill"; done' EXIT
}

# Runs a command, or a function, in a group.
within() { # NAME COMMAND...
    (
        echo 0 >"$groups/$1/cgroup.procs"
        shift
        "$@"
    )
}

# Gives a group, and the case's folder, to a user without rights.
give_group() { # NAME
    mkdir -p /etc
    printf 'root::0:0::/:/bin/sh\nuser::1000:1000::/:/bin/sh\n' >/etc/passwd
    chown -R 1000 "$groups/$1" .
}

# Becomes that user and then the program, with the case's environment.
as_user() { # COMMAND LINE
    exec su user -c "exec $*"
}

# A figure of a group's file: the only one, or the one behind a word.
figure() { # GROUP FILE [WORD]
    if [ $# = 2 ]; then
        cat "$groups/$1/$2"
    else
        awk -v w="$3" '$1 == w { print $2 }' "$groups/$1/$2"
    fi
}

# Whether a file has such a line; else shows the file.
says() { # FILE PATTERN
    grep -Eq -- "$2" "$1" || { echo "$1 does not say '$2':" && cat "$1" && exit 1; }
}

# Waits until a command succeeds, a minute or two at most.
until_true() {
    set +x
    tries=0
    until "$@" >/dev/null 2>&1; do
        tries=$((tries + 1))
        [ "$tries" -lt 1000 ] || fail "never: $*"
        sleep 0.1
    done
    set -x
}

# What was answered, without what differs from run to run; there must be some of it.
answers() {
    nocturne export --format jsonl >exported
    sed -E 's/"[a-z_]*id":"[^"]*",?//g' exported
    grep -q '"text":"..' exported || fail 'nothing was answered'
}

# A figure of an object that a command printed for programs.
value_of() { # FILE NAME
    sed -nE "s/.*\"$2\":[[:space:]]*(-?[0-9.]+).*/\\1/p" "$1" | head -n 1
}

# The request that was submitted first, for programs.
show_one() { # [WHAT RUNS THE PROGRAM]
    program=${1:-nocturne}
    $program show "$($program list --json | sed -nE 's/.*"id":[[:space:]]*"([^"]*)".*/\1/p' | head -n 1)" --json
}
