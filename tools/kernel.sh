#!/bin/bash
# Runs tests on the kernel that this system's release ships, whatever kernel the machine runs: in
# an emulated machine, which sees this system's files and keeps what it writes to itself. For how
# the libraries do where the kernel is too old for `watch=pagemap`, as Debian 12's own is. An
# emulated processor is slow: times mean nothing.
# Usage: tools/kernel.sh [COMMAND]; without one, tests of both C interfaces that depend on the
# kernel most. COMMAND is for a shell in this folder, which was built before. KERNEL=PACKAGE is
# another kernel, MINUTES=N how long it may take (60), FOLDER where the machine's parts lie
# (build/kernel). Called by `make kernel`. Debian only; root or sudo to install the emulator.
set -euo pipefail
cd "$(dirname "$0")/.."

# shellcheck disable=SC2016 # the shell in the machine expands it
command=${1:-'failed=0
    tests/c/run.sh exec fork threads signals waits blocked costly_snapshots || failed=1
    tests/bdw/run.sh fork threads signals environment || failed=1
    exit $failed'}
folder=$(realpath -m "${FOLDER:-build/kernel}")
shared=$folder/shared
# What the kernel needs to see this system's files; what these need comes along.
modules=(virtio_pci 9pnet_virtio 9p overlay)

tools/apt.sh qemu-system-x86 seabios busybox-static kmod cpio >&2
mkdir -p "$shared"

# The kernel's package is unpacked, not installed.
package=${KERNEL:-$(apt-cache depends linux-image-amd64 |
    awk '/Depends: linux-image/ { print $2 }')}
version=${package#linux-image-}
if [ ! -e "$folder/system/boot/vmlinuz-$version" ]; then
    (cd "$folder" && apt-get -qq -o APT::Sandbox::User=root download "$package") || {
        echo "kernel: apt has no package $package; KERNEL=PACKAGE names another one" >&2
        exit 1
    }
    rm -rf "$folder/system"
    dpkg-deb --extract "$folder/$package"_*.deb "$folder/system"
    depmod --basedir "$folder/system" "$version"
fi

# What is there at the beginning: one program, the modules in the order in which they go in.
rm -rf "$folder/parts"
mkdir -p "$folder/parts/bin" "$folder/parts/modules"
cp "$(command -v busybox)" "$folder/parts/bin/busybox"
for module in "${modules[@]}"; do
    modprobe --dirname "$folder/system" --set-version "$version" --show-depends "$module"
done | awk '$1 == "insmod" && !seen[$2]++ { print $2 }' | while read -r file; do
    cp "$file" "$folder/parts/modules/"
    basename "$file"
done >"$folder/parts/order"
cat >"$folder/parts/init" <<'END'
#!/bin/busybox sh
PATH=/bin
for name in mkdir mount insmod cat ip switch_root; do busybox ln -s busybox /bin/$name; done
mkdir -p /proc /sys /dev /below /above /root
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
for module in $(cat /order); do insmod /modules/$module; done
mount -t 9p -o trans=virtio,version=9p2000.L,ro,cache=loose,msize=524288 system /below
mount -t tmpfs -o size=70% above /above
mkdir /above/upper /above/work
mount -t overlay -o lowerdir=/below,upperdir=/above/upper,workdir=/above/work system /root
mount -t proc proc /root/proc
mount -t sysfs sys /root/sys
mount -t devtmpfs dev /root/dev
mkdir -p /root/dev/shm /root/dev/pts /root/shared
mount -t tmpfs shm /root/dev/shm
mount -t devpts pts /root/dev/pts
mount -t tmpfs run /root/run
mount -t 9p -o trans=virtio,version=9p2000.L,msize=524288 shared /root/shared
ip link set lo up
exec switch_root /root /bin/bash /shared/start
END
chmod +x "$folder/parts/init"
(cd "$folder/parts" && find . | cpio --quiet --create --format=newc | gzip -1) >"$folder/initial.gz"

# In the machine, as its first process: runs the command, says how it ended, and turns it off.
rm -f "$shared/log" "$shared/status"
cat >"$shared/start" <<END
export PATH=$(printf %q "$PATH") HOME=$(printf %q "$HOME") LIMIT=1200
{
    echo "# Linux \$(uname -r)"
    cd $(printf %q "$PWD") && bash /shared/command
} >/shared/log 2>&1 </dev/null
echo \$? >/shared/status
sync
echo o >/proc/sysrq-trigger
sleep 60
END
echo "$command" >"$shared/command"

memory=$(awk '/^MemAvailable/ { print int($2 / 2048) }' /proc/meminfo)
timeout "${MINUTES:-60}m" qemu-system-x86_64 -accel tcg,thread=multi -cpu max -smp "$(nproc)" \
    -m "${memory}M" -kernel "$folder/system/boot/vmlinuz-$version" -initrd "$folder/initial.gz" \
    -append "console=ttyS0 quiet panic=-1" -no-reboot -display none -serial stdio \
    -virtfs local,path=/,mount_tag=system,security_model=none,readonly=on,multidevs=remap \
    -virtfs "local,path=$shared,mount_tag=shared,security_model=none" \
    >"$folder/console" 2>&1 </dev/null || true
[ ! -e "$shared/log" ] || cat "$shared/log"
if [ ! -e "$shared/status" ]; then
    echo "kernel: the machine did not come to its end; what it said is in $folder/console" >&2
    exit 1
fi
exit "$(cat "$shared/status")"
