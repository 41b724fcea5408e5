# Real programs of Debian, not rebuilt, by `neap run`, with output compared to that of druntime's
# own collector. Sourced by tests/d/run.sh.
# shellcheck shell=bash disable=SC2154 # run.sh sets out and prefix

# can_run TEST PROGRAM: whether the program is there and has a druntime beside it; else the test is
# skipped.
can_run() {
    if ! command -v "$2" >/dev/null; then
        skip "$1" "$2 is not installed"
        return 1
    fi
    # Not `grep -q`, which leaves at once: ldd would fail, and the test be skipped.
    ldd "$(command -v "$2")" | grep -E 'lib(druntime|gdruntime|gphobos)' >/dev/null && return
    skip "$1" "this system's $2 has druntime linked into it"
    return 1
}
# real NAME COMMAND…: the same output as on druntime's own collector, with which it has to end well
# and to print something, or to write it. OUTPUT in a word is where it may write.
real() {
    local name=$1 watch
    shift
    wanted "$name" && can_run "$name" "$1" || return 0
    rm -rf "$out/$name"
    mkdir -p "$out/$name/own"
    within "${@//OUTPUT/$out/$name/own}" && cp "$out/output" "$out/expected" &&
        [ -n "$(cat "$out/expected" && ls "$out/$name/own")" ] || {
        echo "# failed, or printed and wrote nothing: $*"
        not_ok "$name, what is expected" "$out/output"
        return
    }
    for watch in none pagemap; do
        mkdir -p "$out/$name/$watch"
        # shellcheck disable=SC2016
        same "$name, watch=$watch" sh -c '"$@" 2>&1' sh env NEAP_WATCH="$watch" \
            "$prefix/bin/neap" run -- "${@//OUTPUT/$out/$name/$watch}"
        result "$name writes the same, watch=$watch" diff -r "$out/$name/own" "$out/$name/$watch"
    done
    result "$name has Neap's summary" summary "$prefix/bin/neap" run -- "${@//OUTPUT/$out/$name/$watch}"
}
mkdir -p "$out/package/source" "$out/input"
printf '{"name": "sample", "targetType": "library", "subPackages": [{"name": "part", "targetType": "library"}]}' >"$out/package/dub.json"
echo 'module sample;' >"$out/package/source/sample.d"
# Without an account and a network it reads what it is told, and decides what it would have to do.
mkdir -p "$out/input/onedrive" "$out/input/synchronized"
cat >"$out/input/onedrive/config" <<END
sync_dir = "$out/input/synchronized"
skip_file = "~*|.~*|*.tmp|*.partial"
skip_dir = "Desktop|Documents/Old"
monitor_interval = "450"
skip_dotfiles = "true"
END
printf '/Pictures/*\n!/Pictures/old\n/Music/a*\n' >"$out/input/onedrive/sync_list"
real onedrive onedrive --confdir="$out/input/onedrive" --display-config
real dub dub describe --skip-registry=all "--root=$out/package"
# Thirty thousand reads in random order.
awk 'BEGIN {
    srand(7); OFS = "\t"; print "@HD", "VN:1.6", "SO:unsorted"; print "@SQ", "SN:one", "LN:1000000"
    for (i = 0; i < 30000; i++) {
        bases = ""
        for (k = 0; k < 50; k++) bases = bases substr("ACGT", int(rand() * 4) + 1, 1)
        print "read" i, i % 7 ? 0 : 16, "one", int(rand() * 900000) + 1, 60, "50M", "*", 0, 0, bases, "*"
    }
}' >"$out/input/reads.sam"
if command -v sambamba >/dev/null; then
    sambamba -q view -S -f bam -o "$out/input/reads.bam" "$out/input/reads.sam" 2>"$out/said"
fi
real sambamba-view sambamba -q view -S "$out/input/reads.sam"
real sambamba-flagstat sambamba -q flagstat "$out/input/reads.bam"
# sorted NAME COMMAND…: sorts the reads by the command, and prints them.
sorted() {
    limited "${@:2}" -q sort -t 2 -o "$out/input/$1.bam" "$out/input/reads.bam" 2>"$out/said" && sambamba -q view "$out/input/$1.bam" 2>&1
}
# as_before NAME FUNCTION COMMAND…: the function ends well and prints something, and the same with
# the command under Neap.
as_before() {
    expect "$1" "$2" own "${@:3}" || return
    for watch in none pagemap; do
        NEAP_WATCH=$watch same "$1, watch=$watch" "$2" neap "$prefix/bin/neap" run -- "${@:3}"
    done
}
if wanted sambamba-sort && can_run sambamba-sort sambamba; then
    as_before sambamba-sort sorted sambamba
fi
# planned NAME COMMAND…: asks for a trial of a synchronization.
planned() {
    limited "${@:2}" "--confdir=$out/input/onedrive" --synchronize --dry-run --verbose </dev/null 2>&1
    echo "status $?"
}
if wanted onedrive && can_run onedrive-sync onedrive; then
    as_before onedrive-sync planned onedrive &&
        result "onedrive-sync knows what it was told" grep -q 'where a --resync is required' "$out/expected"
fi
# generated NAME COMMAND…: has it make the metadata, pages and icons of a pool, and prints what it
# made. It works in several threads: what they found first comes first in lists, so those are
# sorted. Its pages say in which minute they were made, which is no difference.
generated() {
    local made=$out/generated-$1
    rm -rf "$made"
    mkdir "$made"
    cp "$out/pool/asgen-config.json" "$made"
    limited "${@:2}" run sample -w "$made" >"$made.said" 2>&1 || return
    (
        cd "$made/export" || exit
        zcat data/sample/main/Components-amd64.yml.gz | tr '\n' '\1' | sed 's/---\x01/\n/g' | LC_ALL=C sort
        zcat hints/sample/main/Hints-amd64.json.gz | sed 's/[][{}]//g' | tr ',' '\n' | LC_ALL=C sort
        for icons in data/sample/main/icons-*.tar.gz; do
            echo "$icons"
            tar --list --file "$icons" | LC_ALL=C sort
        done
        find html -name '*.html' -exec sed -i '/Last updated on: [-0-9: ]*\[UTC\]/d' {} +
        find media html -type f ! -name statistics.json -exec md5sum {} + | LC_ALL=C sort
    )
}
if wanted generator && can_run generator appstream-generator; then
    if result "a pool of packages" tests/d/real/pool.sh "$out/pool"; then
        as_before generator generated appstream-generator && {
            result "generator knows each of them" sh -c \
                '[ "$(grep -ao "ID: org.example.sample[0-9]*" "$1" | sort -u | wc -l)" = 24 ]' sh "$out/expected"
            result "generator has Neap's summary" summary "$prefix/bin/neap" run -- appstream-generator run sample --force \
                -w "$out/generated-own"
        }
    fi
fi
# built NAME COMMAND…: has it build a program of a package, and prints what the program says.
built() {
    rm -rf "$out/built-$1"
    mkdir -p "$out/built-$1/source"
    echo '{"name": "sample", "targetType": "executable"}' >"$out/built-$1/dub.json"
    cp tests/d/runtime.d "$out/built-$1/source/"
    DUB_HOME=$out/dub-home limited "${@:2}" build --force --skip-registry=all --compiler=ldc2 \
        "--root=$out/built-$1" >"$out/built-$1.said" 2>&1 && "$out/built-$1/sample"
}
if wanted dub-build && can_run dub-build dub; then
    as_before "dub builds a package" built dub &&
        result "dub builds a package, and says the same" diff <(sed 's/built-own//' "$out/built-own.said") \
            <(sed 's/built-neap//' "$out/built-neap.said")
fi
# reduced NAME COMMAND…: has it reduce some sources to what a test wants of them.
reduced() {
    rm -rf "$out/reduced-$1"
    mkdir -p "$out/reduced-$1/src"
    local number
    for number in 1 2 3 4 5; do
        printf 'module m%d;\nint f(int x) { if (x > 3) { return x; } return needle(%d); }\nvoid g() { int y; y++; }\n' \
            $number $number >"$out/reduced-$1/src/m$number.d"
    done
    (cd "$out/reduced-$1" && limited "${@:2}" src 'grep -rq "needle(4)" .' >log 2>&1)
}
if wanted dustmite && can_run dustmite dustmite; then
    # reduced_alike: under Neap to the same.
    reduced_alike() {
        reduced neap "$prefix/bin/neap" run -- dustmite &&
            diff -r "$out/reduced-own/src.reduced" "$out/reduced-neap/src.reduced"
    }
    if result "dustmite, druntime's own" reduced own dustmite; then
        for watch in none pagemap; do
            NEAP_WATCH=$watch result "dustmite, watch=$watch" reduced_alike
        done
    fi
fi
cat >"$out/input/Sample-1.0.gir" <<'END'
<?xml version="1.0"?>
<repository version="1.2" xmlns="http://www.gtk.org/introspection/core/1.0"
    xmlns:c="http://www.gtk.org/introspection/c/1.0">
  <namespace name="Sample" version="1.0" c:identifier-prefixes="Sample" c:symbol-prefixes="sample">
    <record name="Point" c:type="SamplePoint">
      <field name="x" writable="1"><type name="gint" c:type="gint"/></field>
      <method name="add" c:identifier="sample_point_add">
        <return-value transfer-ownership="none"><type name="gint" c:type="gint"/></return-value>
        <parameters>
          <instance-parameter name="point" transfer-ownership="none">
            <type name="Point" c:type="SamplePoint*"/>
          </instance-parameter>
          <parameter name="by" transfer-ownership="none">
            <type name="gint" c:type="gint"/>
          </parameter>
        </parameters>
      </method>
    </record>
  </namespace>
</repository>
END
printf 'license: start\nlicense: end\n\nwrap: sample\nfile: Sample-1.0.gir\n' >"$out/input/APILookup.txt"
real girtod girtod -i "$out/input/APILookup.txt" -g "$out/input" -o OUTPUT
