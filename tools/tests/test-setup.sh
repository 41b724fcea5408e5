# Tests of tools/setup.sh and tools/with-rust.sh on machines that are not this one: commands that
# would ask or change the system are replaced by ones that write down what they were asked.
# shellcheck shell=bash disable=SC2154 # run.sh sets top and work

# A command $1 that runs the script $2.
stand_in() {
    mkdir -p bin
    printf '#!/bin/sh\n%s\n' "$2" >"bin/$1"
    chmod +x "bin/$1"
}

# A Debian machine: packages in the file `installed` are installed, apt-get adds to it. The user is
# root if $1 is 0. Rust is there when its package is, in version $2. Packages in the file `unknown`
# are not to be had.
machine() {
    touch installed unknown
    export APT_LISTS=$work/lists
    # shellcheck disable=SC2016 # the stand-ins expand them
    {
        stand_in id "echo $1"
        stand_in dpkg-query \
            'for last; do :; done; grep -qx "$last" "$work/installed" && echo installed'
        stand_in sudo 'echo "sudo $*" >>"$work/log"; exec "$@"'
        stand_in apt-get 'echo "apt-get $*" >>"$work/log"
            case "$*" in *" install "*) for word; do echo "$word" >>"$work/installed"; done ;; esac'
        stand_in apt-cache 'if grep -qx "$2" "$work/unknown"; then
            echo "  Candidate: (none)"; else echo "  Candidate: 1.0"; fi
            sleep 0.01; echo more || exit 100'
        stand_in cargo \
            "grep -qx 'cargo\|cargo-web' \$work/installed || exit 127; echo cargo $2 of-today"
    }
    mkdir tree
    cp -r "$top/tools" "$top/Cargo.toml" tree
    mkdir -p tree/tests/clients
    printf '#!/bin/sh\ntrue\n' >tree/tests/clients/install.sh
    chmod +x tree/tests/clients/install.sh
    touch log
}

setup() {
    HOME=$work/home CARGO_HOME=$work/home/.cargo PATH=$work/bin:/usr/bin:/bin tree/tools/setup.sh \
        "$@"
}

test_a_fresh_machine_gets_a_compiler_and_rust_with_sudo() {
    machine 1000 1.96.0
    setup build >out 2>&1
    grep -q '^sudo .*apt-get .* install .*gcc' log
    grep -q '^sudo .*apt-get .* install .*rustc-web cargo-web' log
    grep -q 'setup: installing gcc' out
    grep -q 'setup: with sudo: ' out
    : >log
    setup build
    [ ! -s log ]
}

test_tests_need_no_peers_of_benchmarks() {
    machine 0 1.96.0
    setup test
    grep -q ' install .*valgrind' log
    absent 'mono\|jdk\|ruby\|mimalloc\|golang\|ldc' log
    setup rest
    grep -q ' install .*ldc' log
    absent 'mono\|jdk\|ruby\|mimalloc\|golang' log
    setup bench
    grep -q ' install .*libmimalloc-dev .*default-jdk' log
}

test_hosts_take_what_the_system_has() {
    machine 0 1.96.0
    echo libmonoboehm-2.0-dev >unknown
    setup hosts 2>out
    grep -q ' install .*mono-mcs' log
    absent ' install .*libmonoboehm\|valgrind' log
    grep -qx 'setup: this system has no package of: libmonoboehm-2.0-dev' out
}

test_the_demonstration_needs_only_what_it_runs() {
    machine 0 1.96.0
    printf '#!/bin/sh\necho "clients $*" >>"$work/log"\n' >tree/tests/clients/install.sh
    setup demo
    grep -qx 'clients demo' log
    absent 'valgrind\|mono\|ldc' log
}

# An mdBook that is there already, installed here or on PATH, will do.
test_the_book_gets_mdbook_once_and_nothing_else_does() {
    machine 0 1.96.0
    # shellcheck disable=SC2016 # the stand-in expands it
    stand_in cargo 'grep -qx cargo-web "$work/installed" || exit 127
        echo "cargo $*" >>"$work/log"
        case $1 in install)
            for root; do :; done
            mkdir -p "$root/bin" && touch "$root/bin/mdbook" && chmod +x "$root/bin/mdbook" ;;
        *) echo cargo 1.96.0 ;; esac'
    setup test
    absent 'cargo install' log
    setup book
    grep -q '^cargo install mdbook --version [0-9.]* --locked .*--root build/tools$' log
    [ "$(tree/tools/book.sh --find)" = "$work/tree/build/tools/bin/mdbook" ]
    : >log
    setup book
    absent 'cargo install' log
    rm -r tree/build
    stand_in mdbook true
    setup book
    absent 'cargo install' log
}

test_what_the_system_has_no_package_of_is_named_and_left_out() {
    machine 0 1.96.0
    cp "$top/tests/clients/install.sh" tree/tests/clients/
    printf '%s\n' nim prometheus >unknown
    setup test >out 2>&1
    grep -qx 'setup: this system has no package of: nim' out
    grep -qx 'setup: this system has no package of: prometheus' out
    grep -q ' install .*crystal' log
    absent ' install .* \(nim\|prometheus\)\( \|$\)' log
    # Lists of today are not fetched again for what is not in them.
    mkdir lists
    touch lists/archive_Packages
    : >log
    setup test
    [ ! -s log ]
}

test_a_system_without_a_rust_for_browsers_gets_its_own() {
    machine 0 1.97.1
    echo rustc-web >unknown
    setup build
    grep -q ' install .*rustc cargo rustfmt rust-clippy' log
}

test_a_package_that_cannot_be_installed_is_a_failure() {
    machine 0 1.96.0
    cp "$top/tests/clients/install.sh" tree/tests/clients/
    stand_in apt-get 'case "$*" in *install*guile*) exit 100 ;; *install*)
        for word; do echo "$word" >>"$work/installed"; done ;; esac'
    if setup demo; then return 1; fi
}

test_root_needs_no_sudo() {
    machine 0 1.96.0
    setup build
    grep -q '^apt-get .* install .*gcc' log
    absent sudo log
}

test_without_root_or_sudo_it_says_what_to_run() {
    machine 1000 1.96.0
    mkdir only
    local command
    for command in bash sh env sed cut sort head dirname grep tr cat; do
        ln -s "$(command -v $command)" only/
    done
    rm bin/sudo
    local status=0
    HOME=$work/home PATH=$work/bin:$work/only tree/tools/setup.sh build >out 2>&1 || status=$?
    cat out
    [ "$status" = 2 ]
    grep -q 'this needs root, and there is no sudo; as root run: apt-get' out
}

test_an_old_rust_of_the_distribution_is_not_removed_unasked() {
    machine 0 1.63.0
    printf '%s\n' rustc cargo gcc g++ libc6-dev make pkg-config ca-certificates >installed
    local status=0
    setup build >out 2>&1 || status=$?
    [ "$status" = 2 ]
    grep -q 'rustc cargo .*too old' out
    [ ! -s log ]
}

test_a_rust_that_is_too_old_even_after_installing_is_said() {
    machine 0 1.85.0
    local status=0
    setup build >out 2>&1 || status=$?
    [ "$status" = 2 ]
    grep -q 'too old here' out
}

test_versions_are_compared_as_versions() {
    local version wanted got
    for entry in 1.88.0:0 1.88.1:0 1.100.0:0 2.0.0:0 1.87.9:2 1.9.0:2 1.63.0:2; do
        version=${entry%:*} wanted=${entry#*:} got=0
        stand_in cargo "echo cargo $version"
        mkdir -p tree/tools
        cp "$top/tools/with-rust.sh" tree/tools/
        echo 'rust-version = "1.88"' >tree/Cargo.toml
        HOME=$work CARGO_HOME=$work/none PATH=$work/bin:/usr/bin:/bin tree/tools/with-rust.sh \
            true || got=$?
        [ "$got" = "$wanted" ]
    done
}

test_rust_in_the_home_folder_is_found() {
    mkdir -p tree/tools .cargo/bin
    cp "$top/tools/with-rust.sh" tree/tools/
    echo 'rust-version = "1.88"' >tree/Cargo.toml
    printf '#!/bin/sh\necho cargo 1.90.0\n' >.cargo/bin/cargo
    chmod +x .cargo/bin/cargo
    stand_in cargo 'echo cargo 1.63.0'
    HOME=$work CARGO_HOME='' PATH=$work/bin:/usr/bin:/bin tree/tools/with-rust.sh cargo \
        --version | grep -q 1.90.0
}
