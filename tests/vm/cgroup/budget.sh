# The drill that needs a group, in one of the second version.
cd /src || exit 1
build/release/tests/run budget_holds_with_its_page_cache >/tmp/drills || { cat /tmp/drills && exit 1; }
cat /tmp/drills
says /tmp/drills '^1 passed, 0 failed, 0 skipped'
