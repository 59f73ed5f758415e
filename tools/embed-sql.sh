#!/bin/sh
# Usage: embed-sql.sh [NNN.sql]... > schema_gen.h
# Turns the schema's scripts into a C table, ordered by number. Without files the table is empty.
set -eu

printf '%s\n' '/* Made by tools/embed-sql.sh from the scripts of queue/schema; do not edit. */' \
    '#ifndef QUEUE_SCHEMA_GEN_H' '#define QUEUE_SCHEMA_GEN_H' '' \
    'static const struct {' '    int version;' '    const char *text;' '} schema_scripts[] = {'
count=0
for file; do
    name=$(basename "$file" .sql)
    case $name in
    '' | *[!0-9]*)
        echo "embed-sql.sh: $file: the name is not a number" >&2
        exit 1
        ;;
    esac
    version=$(printf '%s' "$name" | sed 's/^0*//')
    count=$((count + 1))
    if [ "$version" != "$count" ]; then
        echo "embed-sql.sh: $file: number $count is expected here" >&2
        exit 1
    fi
    printf '    {%s,\n' "$version"
    sed -e 's/\\/\\\\/g' -e 's/"/\\"/g' -e 's/	/\\t/g' -e 's/^/     "/' -e 's/$/\\n"/' "$file"
    printf '    },\n'
done
[ "$count" -gt 0 ] || printf '    {0, 0}, /* C has no empty arrays */\n'
printf '};\n\nstatic const int schema_script_count = %s;\n\n#endif\n' "$count"
