#!/bin/bash
# leak-in-group ARGUMENT…: runs the program `leak`, which lies beside it, in a memory control group
# of its own with a limit of 64 MiB (version 1 or 2, whichever memory is under), and takes the group
# away again. Who may not make a group, mostly anybody but root, gets status 1 and is told.
set -u
program=$(dirname "$(realpath "$0")")/leak
if [ -e /sys/fs/cgroup/memory/memory.limit_in_bytes ]; then
    group=/sys/fs/cgroup/memory/neap-bench-$$ limit=memory.limit_in_bytes
else
    group=/sys/fs/cgroup/neap-bench-$$ limit=memory.max
fi
trap 'rmdir "$group" 2>/dev/null' EXIT
if ! { mkdir "$group" && echo 64M >"$group/$limit"; } 2>/dev/null; then
    echo "no memory control group can be made here: it takes root, and the memory controller" >&2
    exit 1
fi
(echo "$BASHPID" >"$group/cgroup.procs" && exec "$program" "$@")
status=$?
# The kernel takes a moment to see that the group is empty.
for _ in 1 2 3 4 5; do rmdir "$group" 2>/dev/null && break || sleep 0.1; done
exit $status
