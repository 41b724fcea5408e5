# shellcheck shell=bash disable=SC2154,SC2317 # read by run.sh, which calls by name
# Which functions allocation sites are named by: of C++ with its containers, and of programs whose
# debugging information lies apart. Read by run.sh.

# sites_of RECORDING PROGRAM…: runs it with its allocations sampled; its sites as JSON on standard
# output.
sites_of() {
    rm -f "$1"
    NEAP_SAMPLE=4KiB NEAP_STATS=$1 "${@:2}" && "$neap" report "$1" --json
}

# A site is named by the function that the program called, and the next is the program's own.
containers() {
    local level
    for level in -O0 -O2; do
        g++ -std=c++17 -g $level -Wall -Wextra -Werror -I"$prefix/include" tests/stats/sites/containers.cpp \
            -o "$out/containers$level" -L"$prefix/lib" -Wl,-rpath,"$prefix/lib" -lneap || return 1
        sites_of "$out/containers$level.neap" "$out/containers$level" >"$out/containers.json" || return 1
        python3 - "$out/containers.json" <<'END' || return 1
import json, re, sys
wanted = {
    "fill_row": r"std::vector<.*>::push_back\(",
    "fill_tree": r"std::map<.*>::operator\[\]\(",
    "fill_text": r"std::.*basic_string<.*>::operator\+=\(",
    "share": r"^(std::.*|_ZSt15)allocate_shared",
    "make_nodes": None,
}
found = set()
for site in json.load(open(sys.argv[1]))["sites"]:
    frames = site["frames"]
    names = [re.split(r"[ (]", frame)[0] for frame in frames]
    function = next((name for name in names if name in wanted), None)
    if function is None:
        continue
    found.add(function)
    at = names.index(function)
    assert at == (wanted[function] is not None), (function, frames)
    assert not at or re.search(wanted[function], frames[0]), frames
    assert names[at + 1] == "main", frames
assert found == set(wanted), found
print(sorted(found))
END
    done
}

# apart: whether the sites of the program $out/apart have files and lines.
apart() {
    sites_of "$out/apart.neap" "$out/apart" >"$out/apart.json" || return 1
    grep -c '"make (sites.c:[0-9]*)"' "$out/apart.json" >/dev/null
}

# Without a build id, then with one.
debugging_information_apart() {
    local program=$out/apart id
    rm -rf "$out/.debug" "$program" "$program.debug" "$out/debuginfod"
    mkdir "$out/.debug"
    cc -std=gnu11 -g -O2 -I"$prefix/include" tests/stats/sites/sites.c -Wl,--build-id=none -o "$program" \
        -L"$prefix/lib" -Wl,-rpath,"$prefix/lib" -lneap &&
        objcopy --only-keep-debug "$program" "$program.debug" &&
        strip "$program" && (cd "$out" && objcopy --add-gnu-debuglink=apart.debug apart) || return 1
    apart || { echo "not found beside the program" && return 1; }
    mv "$program.debug" "$out/.debug/apart.debug"
    apart || { echo "not found in .debug" && return 1; }
    printf x >>"$out/.debug/apart.debug"
    ! apart || { echo "taken with another checksum" && return 1; }
    cc -std=gnu11 -g -O2 -I"$prefix/include" tests/stats/sites/sites.c -Wl,--build-id -o "$program" \
        -L"$prefix/lib" -Wl,-rpath,"$prefix/lib" -lneap || return 1
    id=$(readelf -n "$program" | sed -n 's/.*Build ID: //p')
    mkdir -p "$out/debuginfod/$id"
    objcopy --only-keep-debug "$program" "$out/debuginfod/$id/debuginfo" && strip "$program" || return 1
    ! apart || { echo "names without any debugging information" && return 1; }
    DEBUGINFOD_CACHE_PATH=$out/debuginfod apart || { echo "not found by its build id" && return 1; }
}
