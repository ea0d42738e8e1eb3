# docs/security.md names a test for each promise. They are there.
. "$(dirname "$0")/../interop/harness.sh"
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
page=$root/docs/security.md

# Tests stand there as `path` or as `path::name`.
# shellcheck disable=SC2016 # backquotes of the page
mapfile -t named < <(grep -oE '`(crates|tests)/[^` ]+`' "$page" | tr -d '`' | sort -u)
missing=()
for test in "${named[@]}"; do
    file=$root/${test%%::*}
    if [[ ! -f $file ]]; then
        missing+=("$test")
    elif [[ $test == *::* ]] && ! grep -qE "fn ${test##*::}\b" "$file"; then
        missing+=("$test")
    fi
done
if [[ ${#named[@]} -gt 20 && ${#missing[@]} -eq 0 ]]; then ok "the ${#named[@]} tests that docs/security.md names are there"; else
    not_ok 'the tests that docs/security.md names are there' "${#named[@]} are named, and these are missing: ${missing[*]}"
fi

# A row of the promises without a test is none.
# shellcheck disable=SC2016
bare=$(awk '/^## What is promised/ { on = 1 } /^## What is not/ { on = 0 } on && /^\|/ && !/^\| (---|against)/ && !/`(crates|tests)\// { print }' "$page")
if [[ -z $bare ]]; then ok 'each promise has a test'; else not_ok 'each promise has a test' "$bare"; fi
