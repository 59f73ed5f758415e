# Inside the machine: runs /vm/cases/*.sh, each in a shell and an empty folder of its own, and reports.
# One that fails is shown whole, with what the kernel said meanwhile; VERBOSE shows the others too.
show() {
    sed 's/^/  | /' /tmp/said
}

for case in /vm/cases/*.sh; do
    name=$(basename "$case" .sh)
    rm -rf /tmp/case
    mkdir /tmp/case
    cd /tmp/case || exit 1
    dmesg -c >/dev/null
    echo 3 >/proc/sys/vm/drop_caches # a file that another case's group has read is on nobody else's account
    start=$(cut -d. -f1 /proc/uptime)
    env -i PATH="$PATH" HOME=/tmp/case LC_ALL=C NO_COLOR=1 NOCTURNE_DB=q.db \
        timeout 200 sh -euxc ". /vm/lib.sh; . $case" >/tmp/said 2>&1
    status=$?
    took=$(($(cut -d. -f1 /proc/uptime) - start))
    case $status in
    0) echo "passed $name ($took s)" ;;
    77) echo "skipped $name: $(tail -n 1 /tmp/said)" ;;
    *)
        echo "FAILED $name (status $status, $took s)"
        show
        [ ! -s said ] || sed 's/^/  said: /' said
        dmesg | tail -n 30 | sed 's/^/  kernel: /'
        ;;
    esac
    [ -z "$VERBOSE" ] || [ $status != 0 ] || show
done
echo end
sync
