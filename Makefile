# Names for the things one does here; what each does is in tools/ and xtask/.
# `make` alone lists them.

PREFIX ?= /usr/local

.PHONY: help setup build packages source systems kernel demo test test-rest test-all book bench soak repeated faults fuzz checked loom model miri sanitize install uninstall clean

help:
	@echo 'make demo       build, then run a Guile program on Debian'"'"'s libgc and on Neap'
	@echo 'make test       the tests, in some twelve minutes on two processors (PARTS="rust c" for some of them)'
	@echo 'make test-rest  those that it leaves out; make test-all: both'
	@echo 'make bench      every benchmark, each against its peer (BENCH="…" passes arguments)'
	@echo '                (BENCH=corpus: real programs on libgc and on Neap;'
	@echo '                 BENCH=rust: the crate neap beside other memory management in Rust;'
	@echo '                 BENCH=cliffs: what a program waits for, in shapes that are hard)'
	@echo 'make book       the book of docs/, in build/book/html (installs mdBook into build/tools)'
	@echo 'make build      the release, laid out in build/ as it is installed'
	@echo 'make install    copy that to PREFIX ($(PREFIX)); DESTDIR is respected'
	@echo 'make uninstall  take that away again'
	@echo 'make packages   Debian packages, in build/packages'
	@echo 'make source     the sources with all crates, to build without a network, there too'
	@echo 'make systems    all of that on fresh systems of Debian 12, 13 and testing (as root; SYSTEMS="…"'
	@echo '                passes arguments to tools/systems.sh)'
	@echo 'make kernel     some tests on the kernel that this release of Debian ships, in an emulated machine'
	@echo 'make setup      install what is missing on this machine (the others do so too)'
	@echo 'make soak       torture, forks, little memory, sequences, faults and clients by chance (HOURS=1)'
	@echo 'make repeated   ten runs of the test of each thing that broke in an attack from outside'
	@echo 'make faults     every system call of the library refused at every place, under every watch'
	@echo 'make fuzz       sequences of calls by chance against a shadow heap (SEQUENCES=60 of each), and'
	@echo '                every reader of files and texts with coverage (SECONDS_EACH=60)'
	@echo 'make checked    the tests of both C interfaces on libraries with their debug assertions'
	@echo 'make loom       every interleaving of the lock-free parts'
	@echo 'make model      every interleaving of a cycle and a small program, in a model (2 GB, minutes)'
	@echo 'make miri       the tests that can run under miri, which finds undefined behaviour'
	@echo 'make sanitize   tests under the address and thread sanitizers'
	@echo 'make clean      remove what was built'

setup:
	@tools/setup.sh all

build:
	@tools/setup.sh build
	@tools/build.sh

demo:
	@tools/setup.sh demo
	@tools/build.sh
	@tests/clients/demo.sh

test:
	@tools/setup.sh $(if $(PARTS),rest,test)
	@$(if $(filter hosts,$(PARTS)),tools/setup.sh hosts)
	@tools/test.sh $(PARTS)

test-rest:
	@tools/setup.sh rest
	@tools/setup.sh hosts
	@tools/test.sh --rest

test-all: test test-rest

book:
	@tools/setup.sh book
	@tools/book.sh

bench: build
	@tools/setup.sh bench
	@$(if $(filter corpus,$(firstword $(BENCH))),bench/corpus/corpus.py $(wordlist 2,99,$(BENCH)),\
	    $(if $(filter rust,$(firstword $(BENCH))),bench/rust/run.sh $(wordlist 2,99,$(BENCH)),\
	    tools/with-rust.sh cargo run --quiet --release --package neap-bench -- $(BENCH)))

soak: build
	@tools/long.sh soak $(or $(HOURS),1)

repeated: build
	@tests/soak/repeated.sh

faults: build
	@tests/faults/run.sh --all

fuzz: build
	@SEQUENCES=$(or $(SEQUENCES),60) tests/fuzz/run.sh
	@tools/long.sh fuzz $(or $(SECONDS_EACH),60)

checked: build
	@tools/long.sh checked

loom model miri sanitize:
	@tools/setup.sh build
	@tools/long.sh $@

install:
	@tools/install.sh '$(PREFIX)' '$(DESTDIR)'

uninstall:
	@tools/install.sh --remove '$(PREFIX)' '$(DESTDIR)'

packages:
	@tools/setup.sh packages
	@tools/packages.sh

source:
	@tools/source.sh

systems:
	@tools/systems.sh $(SYSTEMS)

kernel:
	@tools/setup.sh build
	@tools/build.sh
	@tools/kernel.sh

clean:
	@rm -rf build
	@tools/with-rust.sh cargo clean
