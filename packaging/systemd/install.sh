#!/bin/sh
# Usage: install.sh DESTDIR PREFIX
#
# The units below PREFIX/lib/systemd, with the program's path in them; nothing is enabled. The example
# of a drop-in goes to the documents: where systemd would find it, it would hold.
set -eu
from=$(dirname "$0")
lib=$1$2/lib
doc=$1$2/share/doc/nocturne

put() { # FILE FOLDER
    install -d "$2"
    sed "s|/usr/local/bin/nocturne|$prefix/bin/nocturne|" "$from/$1" >"$2/$(basename "$1")"
    chmod 644 "$2/$(basename "$1")"
}

prefix=$2
put nocturne.service "$lib/systemd/system"
put nocturne.timer "$lib/systemd/system"
put user/nocturne.service "$lib/systemd/user"
put nocturne.timer "$lib/systemd/user"
put nocturne.service.d/example.conf "$doc/nocturne.service.d"
install -D -m 644 "$from/nocturne.sysusers" "$lib/sysusers.d/nocturne.conf"
