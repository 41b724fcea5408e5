//! `lookup`: from an address to its object's mark bit, by Neap's arithmetic, by binary search over
//! blocks, and by linear search, for heaps from 1 MB to 8 GB.
//!
//! Prints nanoseconds for a lookup as a table, and writes them as a plot;
//! `lookup count WAY MB LOOKUPS` only does so many lookups, for an instruction counter: the
//! difference of two counts is what the lookups took. Invariant: the three ways agree on every
//! address, or the program ends with an error. One thread.

use std::fmt::Write;
use std::process::ExitCode;
use std::time::Instant;

use neap_core::api;

/// Objects of this size, without pointers, so that the heap's own pages are never touched.
const OBJECT_BYTES: usize = 64;
/// Blocks of the searched tables, as large as Neap's of this class.
const BLOCK_BYTES: usize = 16 << 10;
const BLOCK_WORDS: usize = BLOCK_BYTES / OBJECT_BYTES / 64;
/// Lookups that are timed at once; each is timed several times and the best counts.
const LOOKUPS: usize = 1 << 17;
const TURNS: usize = 5;
/// A linear search longer than this many blocks takes fewer lookups.
const LINEAR_STEPS: usize = 1 << 24;

/// A block as a collector without arithmetic has it: where it lies, and its mark bits.
struct Block {
    start: usize,
    end: usize,
    marks: [u64; BLOCK_WORDS],
}

impl Block {
    fn is_marked(&self, address: usize) -> bool {
        let cell = (address - self.start) / OBJECT_BYTES;
        self.marks[cell / 64] >> (cell % 64) & 1 != 0
    }
}

/// The three ways.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Arithmetic,
    Binary,
    Linear,
}

const WAYS: [(Way, &str); 3] =
    [(Way::Arithmetic, "arithmetic"), (Way::Binary, "binary"), (Way::Linear, "linear")];

fn look(way: Way, blocks: &[Block], address: usize) -> bool {
    match way {
        Way::Arithmetic => api::mark_bit(address),
        Way::Binary => {
            let after = blocks.partition_point(|block| block.start <= address);
            let block = after.checked_sub(1).and_then(|index| blocks.get(index));
            block.is_some_and(|block| address < block.end && block.is_marked(address))
        }
        Way::Linear => blocks
            .iter()
            .find(|block| (block.start..block.end).contains(&address))
            .is_some_and(|block| block.is_marked(address)),
    }
}

/// Numbers without a pattern, the same each time.
fn scatter(state: &mut u64) -> usize {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*state >> 20) as usize
}

/// Makes the heap as large as asked, half of its objects marked; gives the same as a table of
/// blocks.
fn grow(blocks: &mut Vec<Block>, bytes: usize) -> Result<(), String> {
    while blocks.len() * BLOCK_BYTES < bytes {
        let first = api::allocate(OBJECT_BYTES, api::Kind::Leaf) as usize;
        if first == 0 || !first.is_multiple_of(BLOCK_BYTES) {
            return Err(format!(
                "the heap has no block at {first:#x}: no memory, or another layout"
            ));
        }
        let mut block = Block { start: first, end: first + BLOCK_BYTES, marks: [0; BLOCK_WORDS] };
        for cell in 0..BLOCK_BYTES / OBJECT_BYTES {
            let object = match cell {
                0 => first,
                _ => api::allocate(OBJECT_BYTES, api::Kind::Leaf) as usize,
            };
            if object != first + cell * OBJECT_BYTES {
                return Err("objects of a block do not follow each other".to_owned());
            }
            if (object / OBJECT_BYTES).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 63 != 0 {
                api::set_mark_bit(object, true);
                block.marks[cell / 64] |= 1 << (cell % 64);
            }
        }
        blocks.push(block);
    }
    blocks.sort_unstable_by_key(|block| block.start);
    Ok(())
}

/// Starts of objects, in no order.
fn addresses(blocks: &[Block], count: usize) -> Vec<usize> {
    let mut state = 42;
    (0..count)
        .map(|_| {
            let block = &blocks[scatter(&mut state) % blocks.len()];
            block.start + scatter(&mut state) % (BLOCK_BYTES / OBJECT_BYTES) * OBJECT_BYTES
        })
        .collect()
}

fn count_marked(way: Way, blocks: &[Block], addresses: &[usize]) -> usize {
    addresses.iter().filter(|address| look(way, blocks, **address)).count()
}

/// Nanoseconds for a lookup.
fn time(way: Way, blocks: &[Block], addresses: &[usize]) -> Result<f64, String> {
    let few = (LINEAR_STEPS / blocks.len()).clamp(16, addresses.len());
    let addresses = if way == Way::Linear { &addresses[..few] } else { addresses };
    let expected = count_marked(Way::Binary, blocks, addresses);
    let mut best = f64::INFINITY;
    for _ in 0..TURNS {
        let began = Instant::now();
        let marked = count_marked(way, blocks, addresses);
        best = best.min(began.elapsed().as_secs_f64() * 1e9 / addresses.len() as f64);
        if marked != expected {
            return Err(format!("{marked} are marked one way, {expected} the other"));
        }
    }
    Ok(best)
}

/// Both axes by powers of ten and two; a line for each way.
fn plot(rows: &[(usize, [f64; 3])]) -> String {
    let most = rows.len().max(2) - 1;
    let x = |index: usize| 70.0 + 560.0 * index as f64 / most as f64;
    let y = |ns: f64| 350.0 - 50.0 * ns.max(1.0).log10();
    let mut out = String::from(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 720 410\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"720\" height=\"410\" fill=\"white\"/>\n",
    );
    for power in 0..=6 {
        let height = y(10_f64.powi(power));
        let _ = writeln!(
            out,
            "<path d=\"M70 {height}H630\" stroke=\"#ddd\"/><text x=\"62\" y=\"{}\" \
             text-anchor=\"end\">{} ns</text>",
            height + 4.0,
            10_u64.pow(power as u32)
        );
    }
    for (index, (megabytes, _)) in rows.iter().enumerate() {
        let (size, unit) =
            if *megabytes < 1024 { (*megabytes, "MB") } else { (megabytes / 1024, "GB") };
        let _ = writeln!(
            out,
            "<text x=\"{}\" y=\"372\" text-anchor=\"middle\">{size} {unit}</text>",
            x(index)
        );
    }
    for (way, colour) in [(0, "#06c"), (1, "#c60"), (2, "#888")] {
        let points: Vec<String> = rows
            .iter()
            .enumerate()
            .map(|(index, (_, ns))| format!("{:.1},{:.1}", x(index), y(ns[way])))
            .collect();
        let last = rows.last().map_or(1.0, |row| row.1[way]);
        let _ = writeln!(
            out,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/><text \
             x=\"638\" y=\"{}\" fill=\"{colour}\">{}</text>",
            points.join(" "),
            y(last) + 4.0,
            WAYS[way].1
        );
    }
    out.push_str(
        "<text x=\"350\" y=\"398\" text-anchor=\"middle\">heap; time to the mark bit of a \
        random object</text>\n</svg>\n",
    );
    out
}

fn measure(most_megabytes: usize, file: &str) -> Result<(), String> {
    let mut blocks = Vec::new();
    let mut rows = Vec::new();
    println!(
        "| heap, MB | arithmetic, ns | binary search, ns | linear search, ns |\n| ---: | ---: | \
         ---: | ---: |"
    );
    let mut megabytes = 1;
    while megabytes <= most_megabytes {
        grow(&mut blocks, megabytes << 20)?;
        let addresses = addresses(&blocks, LOOKUPS);
        let mut ns = [0.0; 3];
        for (index, (way, _)) in WAYS.into_iter().enumerate() {
            ns[index] = time(way, &blocks, &addresses)?;
        }
        println!("| {megabytes} | {:.1} | {:.1} | {:.0} |", ns[0], ns[1], ns[2]);
        rows.push((megabytes, ns));
        megabytes *= 2;
    }
    std::fs::write(file, plot(&rows)).map_err(|error| format!("cannot write {file}: {error}"))
}

fn count(way: &str, megabytes: usize, lookups: usize) -> Result<(), String> {
    let way = WAYS.into_iter().find(|(_, name)| *name == way).ok_or("no such way")?.0;
    let mut blocks = Vec::new();
    grow(&mut blocks, megabytes << 20)?;
    println!(
        "{} of {lookups} are marked",
        count_marked(way, &blocks, &addresses(&blocks, lookups))
    );
    Ok(())
}

fn main() -> ExitCode {
    api::initialize();
    // Nothing refers to the objects.
    api::disable();
    let words: Vec<String> = std::env::args().skip(1).collect();
    let number = |index: usize| words.get(index).and_then(|word| word.parse::<usize>().ok());
    let result = match (words.first().map(String::as_str), number(0), number(2), number(3)) {
        (Some("count"), _, Some(megabytes), Some(lookups)) => count(&words[1], megabytes, lookups),
        (Some(_), Some(most), ..) if words.len() == 2 => measure(most, &words[1]),
        _ => Err("usage: lookup MB PLOT.svg, or lookup count arithmetic|binary|linear MB LOOKUPS"
            .to_owned()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("lookup: {error}");
            ExitCode::FAILURE
        }
    }
}
