#!/bin/bash
# Does what a page of the book says: writes the files that it shows, runs its commands, and compares
# what they print with what it says they print. Needs nothing but bash and awk, so it runs on a
# fresh system too. Called by tests/book/run.sh and the scripts of tests/newcomer.
# Usage: follow.sh PAGE FOLDER     works in FOLDER, which is made; ends with 1 at the first step
#        follow.sh --count PAGE    that does not do what the page says
# PREFIX=DIR is where Neap is installed, in place of the book's /usr/local; NEAP=DIR its sources.
# FRESH=1: this is a system with nothing on it, so the page's commands for one are run too, in NEAP.
#
# In a page, a fenced block of `sh` is a row of commands, and one of `text` right behind it is what
# they print: "…" stands for anything. `<!-- file: PATH as NAME -->` before a block says that it is
# the file PATH of this tree, and that the reader saves it as NAME (or by its own name).
# `<!-- on a fresh Debian -->` says that the commands install what the others want.
set -euo pipefail

# The page's steps: files 001.file (its first line is the name), 002.sh, 002.expected, 003.fresh …
steps() {
    awk -v out="$2" '
        function step(ending) { return sprintf("%s/%03d.%s", out, count, ending) }
        inside && /^```[ \t]*$/ { inside = 0; close(target); target = ""; next }
        inside { if (target != "") print > target; next }
        /^```/ {
            inside = 1
            language = substr($0, 4)
            target = ""
            if (name != "") { count++; target = step("file"); print name > target }
            else if (marked) { }
            else if (fresh) { count++; target = step("fresh") }
            else if (language == "sh") { count++; target = step("sh") }
            else if (language == "text" && after_sh) target = step("expected")
            if (target != "") printf "" >> target
            after_sh = language == "sh" && !marked && name == ""
            name = ""; marked = 0; fresh = 0
            next
        }
        /^<!-- file: .* -->$/ {
            name = $3
            sub(/.*\//, "", name)
            if ($4 == "as") name = $5
            next
        }
        /^<!-- on a fresh Debian -->$/ { fresh = 1; next }
        /^<!-- (part of|only shown): .* -->$/ { marked = 1; next }
        NF { after_sh = 0 }
    ' "$1"
}

# The commands of the page, one a line: a line that ends in a backslash goes on.
commands() {
    steps "$1" "$2"
    cat "$2"/*.{sh,fresh} 2>/dev/null | sed -e ':more' -e '/\\$/{N;s/\\\n *//;bmore' -e '}' |
        grep -v '^ *\(#.*\)\?$' || true
}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
case $1 in
--count)
    commands "$2" "$work" | wc -l
    exit
    ;;
esac

# matches FILE EXPECTED: whether the file's text is as expected.
matches() {
    local text pattern
    text=$(<"$1")
    pattern=$(sed 's/[][\\*?]/\\&/g; s/…/*/g' "$2")
    # shellcheck disable=SC2053 # it is a pattern
    [[ $text == $pattern ]]
}

prefix=${PREFIX:-/usr/local}
export PATH=$prefix/bin:$PATH
page=$(realpath "$1")
mkdir -p "$2"
cd "$2"
steps "$page" "$work"
shopt -s nullglob
all=("$work"/*.file "$work"/*.sh)
[ -z "${FRESH:-}" ] || all+=("$work"/*.fresh)
[ ${#all[@]} != 0 ] || {
    echo "follow.sh: there is nothing to do in $page" >&2
    exit 1
}
while IFS= read -r step; do
    case $step in
    *.file)
        name=$(head -n 1 "$step")
        tail -n +2 "$step" >"$name"
        echo "wrote $name"
        ;;
    *.fresh)
        sed 's/^/$ /' "$step"
        (cd "${NEAP:?}" && bash -euc ". '$step'" </dev/null)
        ;;
    *)
        sed -i "s|/usr/local|$prefix|g" "$step"
        sed 's/^/$ /' "$step"
        # Not in a subshell: `cd` counts for the next step.
        trap 'cat "$work/said" >&2; rm -rf "$work"' EXIT
        # shellcheck disable=SC1090
        . "$step" >"$work/said" 2>&1 </dev/null
        trap 'rm -rf "$work"' EXIT
        cat "$work/said"
        expected=${step%.sh}.expected
        if [ -e "$expected" ] && ! matches "$work/said" "$expected"; then
            echo "follow.sh: the page says that this prints:" >&2
            cat "$expected" >&2
            exit 1
        fi
        ;;
    esac
done < <(printf '%s\n' "${all[@]}" | sort)
