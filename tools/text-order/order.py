#!/usr/bin/env python3
# Writes crates/neap-bdw/text-order.ld and crates/neap-c/text-order.ld, linker scripts that put the
# functions that programs call side by side. The kernel maps 64 KiB and more around each page of
# code that is touched, so what lies among functions that nobody calls costs each process memory.
#
# Usage: tools/text-order/order.py, by hand, after `make build` and `tests/clients/install.sh`. It
# takes a minute. The lists need not be of today's code: a function that is in none is linked after
# those that are. The test `c/code_order` fails where the lists do not fit any more.
# Programs: for libgc.so.1 the clients of tests/clients, for libneap.so.0 the examples in C.
import collections
import os
import pathlib
import re
import subprocess
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
SECONDS = 120  # for one program
# Names of closures and of what is compiled for many types say little: where a name leads to more
# bytes than these, and programs call a smaller part of them, it comes last.
VAGUE_BYTES, VAGUE_PART = 16384, 0.25


def functions(library):
    """{mangled name: (address, bytes)}"""
    found = {}
    lines = subprocess.run(["nm", "--print-size", "--defined-only", library], check=True,
                           capture_output=True, text=True).stdout.splitlines()
    for line in lines:
        parts = line.split()
        if len(parts) == 4 and parts[2] in "tTwW":
            found[parts[3]] = (int(parts[0], 16), int(parts[1], 16))
    return found


def pattern(name):
    """A mangled name, of either way of mangling, without the hashes that change with compilers and
    versions."""
    if name.startswith("_R"):
        return re.sub(r"Cs[0-9A-Za-z]+_", "Cs*_", name)
    return re.sub(r"17h[0-9a-f]{16}E.*$", "17h*", name)


def watched(library, folder):
    """The environment in which `first_calls` writes lists of this library's functions."""
    symbols = folder / "symbols"
    symbols.write_text("".join(f"{address:x} {name}\n"
                               for name, (address, _) in functions(library).items()))
    lists = folder / "lists"
    lists.mkdir()
    return dict(os.environ, FIRST_CALLS_LIBRARY=str(library), FIRST_CALLS_SYMBOLS=str(symbols),
                FIRST_CALLS_LISTS=str(lists), LD_LIBRARY_PATH=str(library.parent))


def run(command, environment):
    try:
        ended = subprocess.run(command, env=environment, timeout=SECONDS, check=False,
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode
    except subprocess.TimeoutExpired:
        ended = f"nothing after {SECONDS} s"
    if ended not in (0, 3):  # 3: not installed
        print(f"order.py: {' '.join(map(str, command))}: {ended}", flush=True)


def write(library, lists, target):
    """Writes the order that these lists of calls lead to; of programs without the library they
    are empty."""
    sizes = functions(library)
    lists = [file for file in lists if file.stat().st_size > 0]
    matched = collections.Counter()
    for name, (_, size) in sizes.items():
        matched[pattern(name)] += size
    programs, ranks, called = collections.Counter(), collections.Counter(), {}
    for file in lists:
        seen = {}
        for rank, name in enumerate(file.read_text().split()):
            seen.setdefault(pattern(name), rank)
            called.setdefault(pattern(name), set()).add(name)
        for one, rank in seen.items():
            programs[one] += 1
            ranks[one] += rank

    def place(one):
        called_bytes = sum(sizes[name][1] for name in called[one])
        vague = matched[one] > VAGUE_BYTES and called_bytes < VAGUE_PART * matched[one]
        rank = ranks[one] / programs[one]
        # What many call in the order of time, so that those who end early touch little.
        if programs[one] * 4 >= len(lists):
            return (vague, 0, rank, one)
        return (vague, 1, -programs[one], rank, one)

    kept = sorted(programs, key=place)
    lines = "".join(f"    *(.text*.{one})\n" for one in kept)
    target.write_text(f"""/* Made by tools/text-order/order.py: the order of functions in the library.
   What programs call comes first; what stands in no line comes after it. */
SECTIONS {{
  .fini : {{ KEEP(*(.fini)) }}
  .plt : {{ *(.plt) *(.iplt) }}
  .text : {{
    *crtbegin*.o(.text .text.*)
    *libc_nonshared.a:*(.text .text.*)
{lines}    *(.text .text.*)
  }}
}} INSERT AFTER .init;
""")
    print(f"{target.relative_to(ROOT)}: {len(kept)} names, of {len(lists)} processes", flush=True)


def main():
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        tracer = folder / "first_calls"
        subprocess.run(["cc", "-O2", "-o", tracer, HERE / "first_calls.c"], check=True)

        library = ROOT / "build/lib/neap/libgc.so.1"
        (folder / "bdw").mkdir()
        environment = watched(library, folder / "bdw")
        for script in sorted(ROOT.glob("tests/clients/*/run")):
            run([script], dict(environment, CLIENT_NEAP=str(tracer)))
        write(library, list((folder / "bdw/lists").iterdir()),
              ROOT / "crates/neap-bdw/text-order.ld")

        library = (ROOT / "build/lib/libneap.so.0").resolve()
        (folder / "c").mkdir()
        environment = watched(library, folder / "c")
        for source in sorted(ROOT.glob("examples/c/*.c")):
            program = folder / source.stem
            subprocess.run(["cc", "-O2", "-I", ROOT / "build/include", "-o", program, source, "-L",
                            library.parent, "-lneap", "-lpthread"], check=True)
            run([tracer, program], environment)
        write(library, list((folder / "c/lists").iterdir()), ROOT / "crates/neap-c/text-order.ld")


main()
