#!/bin/bash
# The book: links, anchors and programs of its pages, the commands of its guides, and where mdBook
# is there, the book that `make book` builds. Those of the tutorials are in tests/newcomer. Usage:
# run.sh [NAME …]. Called by tools/test.sh.
. "$(dirname "$0")/../lib.sh"
begin book
only=("$@")
# The options of a reader.
unset "${!NEAP_@}"
export NEAP=$PWD PREFIX=$prefix
shown=60

# Guides whose commands need no more than the tests have.
guides="tuning.md watching.md language-implementers.md"

# refused WORDS FILE…: whether the walk of a tree with these files, each NAME=TEXT, finds what the
# words say.
refused() {
    local words=$1 file tree=$out/tree
    shift
    rm -rf "$tree"
    for file in 'docs/SUMMARY.md=[A](a.md)' "$@"; do
        mkdir -p "$(dirname "$tree/${file%%=*}")"
        printf '%b' "${file#*=}" >"$tree/${file%%=*}"
    done
    if tests/book/check.py "$tree" >"$out/said"; then
        echo "nothing was found"
        return 1
    fi
    cat "$out/said"
    grep -q "$words" "$out/said"
}

# followed WORDS PAGE: whether following the page ends with an error that has these words.
followed() {
    printf '%b' "$2" >"$out/page.md"
    rm -rf "$out/followed"
    if tests/book/follow.sh "$out/page.md" "$out/followed" >"$out/said" 2>&1; then
        echo "it went well"
        return 1
    fi
    cat "$out/said"
    grep -q "$1" "$out/said"
}

guide() {
    rm -rf "$out/guide"
    tests/book/follow.sh "docs/$1" "$out/guide"
}

if wanted walk; then
    result walk tests/book/check.py
fi
if wanted finds; then
    result "finds, a link to nothing" refused 'no b.md' 'docs/a.md=# A\n[b](b.md)\n'
    result "finds, an anchor that is none" refused 'no heading #b' 'docs/a.md=# A\n[b](#b)\n'
    result "finds, a link out of the tree" refused 'out of the tree' 'docs/a.md=# A\n[b](../..)\n'
    result "finds, a page that the contents lack" refused 'b.md is missing' \
        'docs/a.md=# A\n' 'docs/b.md=# B\n'
    result "finds, a page that stands twice" refused 'twice' 'docs/a.md=# A\n' \
        'docs/SUMMARY.md=[A](a.md)\n[A](a.md)\n'
    result "finds, a program that is another" refused 'is not what' 'x/a.c=int a;\n' \
        'docs/a.md=# A\n<!-- file: x/a.c -->\n```c\nint b;\n```\n'
    result "finds, a part that is none" refused 'is not in' 'x/a.c=int a;\n' \
        'docs/a.md=# A\n<!-- part of: x/a.c -->\n```c\nint b;\n```\n'
    result "finds, a command that nothing runs" refused 'no test runs' \
        'docs/a.md=# A\n```sh\ntrue\n```\n'
    result "finds, a block that nothing looks at" refused 'no file, part' \
        'tests/newcomer/c.sh=page=a.md\n' 'docs/a.md=# A\n```c\nint a;\n```\n'
    result "finds, indented code that nothing looks at" refused 'no test looks at' \
        'tests/newcomer/c.sh=page=a.md\n' 'docs/a.md=# A\n\n    int a;\n'
    result "finds, indented code that nothing compiles" refused 'nothing compiles' \
        'docs/a.md=# A\n\n    sh\n    int a; // one\n'
    result "finds, code beside the book that nothing compiles" refused 'nothing compiles' \
        'docs/a.md=# A\n' 'README.md=# B\n\n    int a; // one\n'
    result "finds, a program without a page" refused 'no page' 'docs/a.md=# A\n' \
        'examples/odd/odd.c=int a;\n'
fi
if wanted follows; then
    result "follows, a command that fails" followed '\$ false' '```sh\nfalse\n```\n'
    result "follows, other words" followed 'this prints' '```sh\necho a\n```\n```text\nb\n```\n'
    result "follows, other words around what stands for anything" followed 'this prints' \
        '```sh\necho a b\n```\n```text\na … c\n```\n'
    result "follows, nothing to do" followed 'nothing to do' '# A\n'
fi
for page in $guides; do
    wanted "${page%.md}" && result "${page%.md}" guide "$page"
done
# example NAME COMPILER FLAG…: compiles without a warning; then `says` what it prints.
example() {
    local name=$1
    shift
    compile "$name" "$@" -O2 -Wall -Wextra -Werror -o "$out/$name"
}
# says NAME TEXT OPTION…: the last line that the program prints, under these options.
says() {
    local name=$1 text=$2
    shift 2
    [ "$(env "$@" "$out/$name" | tail -n 1)" = "$text" ]
}
if wanted examples; then
    trees='4094000 nodes came and went, 524287 are kept'
    flags=$("$prefix/bin/neap" flags c)
    # shellcheck disable=SC2086 # flags are words
    {
        example trees cc examples/c/trees.c $flags
        example library cc examples/c/library.c $flags
        example sessions cc examples/c/sessions.c $flags
        example host cc examples/interpreter/{host,value,read,eval}.c $flags
        example lisp cc examples/interpreter/{main,value,read,eval,fibers,threads}.c $flags
        example pieces cc examples/c/pieces.c $flags -pthread
        example pieces-cpp c++ -std=c++17 examples/cpp/pieces.cpp $("$prefix/bin/neap" flags c++)
        example trees-gc cc examples/libgc/trees.c "-I$prefix/include/neap" \
            "-L$prefix/lib/neap" "-Wl,-rpath,$prefix/lib/neap" -lgc
    }
    for options in "NEAP_WATCH=none" "NEAP_CHECK=3 NEAP_MIN_TRIGGER=1M" "NEAP_WATCH=fork"; do
        # shellcheck disable=SC2086
        {
            result "examples, trees, $options" says trees "$trees" $options
            result "examples, library, $options" says library "Volume 0 is still here" $options
            result "examples, host, $options" says host "(1 2)" $options
            result "examples, pieces, $options" says pieces "most files are closed: yes" $options
            result "examples, pieces in C++, $options" says pieces-cpp "1 2 1000" $options
            result "examples, trees of libgc, $options" says trees-gc "$trees" $options
        }
    done
    result "examples, sessions" sh -c "'$out/sessions' 0.2 | grep -q 'sessions, the longest'"
fi
if wanted interpreter && [ -x "$out/lisp" ]; then
    for file in examples/interpreter/*.lisp; do
        for options in "NEAP_WATCH=none" "NEAP_WATCH=fork" "NEAP_CHECK=3"; do
            name=$(basename "$file" .lisp)
            result "interpreter, $name, $options" sh -c "'$out/lisp' '$file' >'$out/plain' &&
                env $options NEAP_MAX_PAUSE=0 NEAP_MIN_TRIGGER=64K '$out/lisp' '$file' |
                cmp - '$out/plain'"
        done
    done
fi
if wanted mdbook; then
    # Who asks for it by name waits for it.
    [ ${#only[@]} = 0 ] || timeout 900 tools/setup.sh book || true
    if tools/book.sh --find >/dev/null; then
        result mdbook tools/book.sh "$out/html"
        result "mdbook, its links" tests/book/built.py "$out/html"
    else
        skip mdbook "mdBook is not here, \`make book\` installs it"
    fi
fi
exit "$failed"
