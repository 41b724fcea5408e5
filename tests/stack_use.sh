#!/bin/bash
# How much of a caller's stack the functions of a library use, read from its machine code: the
# deepest row of direct calls from each exported function, and from those that the system calls.
# Calls through pointers are not followed: tests/small_stacks.h measures those that happen. usage:
# tests/stack_use.sh LIBRARY MOST: prints the deepest rows, and those above MOST bytes; status 1 if
# there are any. Called by tests/c/run.sh and tests/bdw/run.sh.
set -euo pipefail
library=$1 most=$2

nm -D --defined-only "$library" | awk '$2 == "T" || $2 == "W" { print $3 }' |
    cat - <(objdump -R "$library") <(objdump -d --no-show-raw-insn "$library") | awk -v most="$most" '
    function hex(digits,  value, index_) {
        value = 0
        digits = tolower(digits)
        for (index_ = 1; index_ <= length(digits); index_++)
            value = value * 16 + index("0123456789abcdef", substr(digits, index_, 1)) - 1
        return value
    }
    # What ends the process, and what runs on another stack: its fallback, where there is no memory
    # for one, is not counted.
    function is_left_out(name) {
        return name ~ /5print5fatal|9panicking|10side_stack.*(4here|8switched)/ ||
            name ~ /13handle_alloc_error|@plt/
    }
    function depth_of(name,  row, part, deepest, calls_, count, index_, called) {
        if (name in depth)
            return depth[name]
        # A function that calls itself again is counted once.
        depth[name] = 0
        deepest = 0
        count = split(calls[name], calls_, " ")
        for (index_ = 1; index_ <= count; index_++) {
            called = calls_[index_]
            sub(/^!/, "", called)
            if (!(called in frame) || called == name || is_left_out(called))
                continue
            part = depth_of(called)
            # A jump at the end of a function has given its frame back.
            part += calls_[index_] ~ /^!/ ? 0 : frame[name] + 8
            if (part > deepest) {
                deepest = part
                next_of[name] = called
            }
        }
        depth[name] = deepest > frame[name] ? deepest : frame[name]
        return depth[name]
    }
    NF == 1 && !listed && !/:/ { exported[$1] = 1; next }
    # A word of the library that holds the address of a function.
    !listed && $2 == "R_X86_64_RELATIVE" {
        sub(/.*\+0x0*/, "", $3)
        sub(/^0*/, "", $1)
        target[$1] = $3
        next
    }
    /^[0-9a-f]+ <.*>:$/ {
        listed = 1
        current = substr($2, 2, length($2) - 3)
        sub(/^0*/, "", $1)
        at[$1] = current
        frame[current] = 0
        probed = 0
        next
    }
    !listed { next }
    /\tpush / { frame[current] += 8 }
    /\tsub +\$0x[0-9a-f]+,%rsp/ {
        match($0, /\$0x[0-9a-f]+/)
        bytes = hex(substr($0, RSTART + 3, RLENGTH - 3))
        if (!(probed && bytes == 4096))
            frame[current] += bytes
    }
    # A large frame is touched page by page, in a loop.
    /\tlea +-0x[0-9a-f]+\(%rsp\),%r11/ {
        match($0, /0x[0-9a-f]+/)
        frame[current] += hex(substr($0, RSTART + 2, RLENGTH - 2))
        probed = 1
    }
    /\t(call|jmp) +\*0x[0-9a-f]+\(%rip\) +#/ {
        through[current] = through[current] " " ($0 ~ /\tjmp/ ? "!" : "") $(NF - 1)
    }
    /\t(call|jmp) .*<[^+>]+>$/ {
        match($0, /<[^+>]+>$/)
        called = substr($0, RSTART + 1, RLENGTH - 2)
        calls[current] = calls[current] " " ($0 ~ /\tjmp/ ? "!" : "") called
    }
    END {
        for (name in through) {
            count = split(through[name], slots, " ")
            for (slot = 1; slot <= count; slot++) {
                jumps = sub(/^!/, "", slots[slot])
                if ((slots[slot] in target) && (target[slots[slot]] in at))
                    calls[name] = calls[name] " " (jumps ? "!" : "") at[target[slots[slot]]]
            }
        }
        # What the system calls on a thread of the program.
        for (name in frame)
            # Their closures run on a stack of our own: those names have both manglings of Rust.
            if (name !~ /closure|^_RNC/ && !is_left_out(name) &&
                (name ~ /4stop7handler|5fault7handler|7at_exit/ ||
                name ~ /13end_of_thread|4fork(7prepare|6parent|5child)/))
                exported[name] = 1
        for (name in exported)
            if (name in frame) {
                functions++
                if (depth_of(name) > deepest_of_all) {
                    deepest_of_all = depth_of(name)
                    deepest_name = name
                }
                if (depth_of(name) > most) {
                    failed = 1
                    report(name)
                }
            }
        if (!functions) {
            print "no function found"
            exit 1
        }
        print functions " functions; the deepest row of calls:"
        report(deepest_name)
        exit failed
    }
    function report(name) {
        print depth[name] " bytes: " name
        while (name in next_of) {
            name = next_of[name]
            print "    " frame[name] " " name
        }
    }'
