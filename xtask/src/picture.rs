//! `picture`: docs/images/architecture.svg, the floors of the core and two ways through them.
//!
//! Invariant: the floors are the modules of LAYERS, the lowest at the bottom, each with the first
//! sentence of its own source. The files of a way, which docs/architecture.md lists in order,
//! exist. So a module or a file that goes away fails the check. Called by `main`.

use crate::document;
use crate::headers::opening;
use crate::tree::{Outcome, Tree};
use std::fmt::Write;

const PATH: &str = "docs/images/architecture.svg";
const PAGE: &str = "docs/architecture.md";
const SOURCE: &str = "crates/neap-core/src/";

/// Headings of the ways in the page, and the colour of each.
const WAYS: [(&str, &str); 2] =
    [("## An allocation", "#2f6f9f"), ("## A cycle beside the program", "#b5532a")];

/// Pixels: a floor's height, the column of names, of what they are, where each way begins, and
/// between two steps.
const FLOOR: usize = 44;
const NAMES: usize = 24;
const WORDS: usize = 130;
const WIDTH: usize = 1180;
const BETWEEN: usize = 25;
const STEPS: [usize; 2] = [640, 800];

/// Writes the picture.
pub fn write(tree: &Tree) -> Outcome {
    document::write(tree, PATH, &text(tree)?)
}

/// Whether the picture is up to date.
pub fn check(tree: &Tree) -> Outcome {
    document::check(tree, PATH, &text(tree)?, "picture")
}

/// A module of the core and what it is.
struct Floor {
    name: String,
    is: String,
}

fn text(tree: &Tree) -> Result<String, String> {
    let mut floors = floors(tree)?;
    floors.reverse();
    let height = (floors.len() + 2) * FLOOR;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" \
         font-family=\"sans-serif\" font-size=\"14\" role=\"img\">\n\
         <title>The modules of Neap's core as floors, and two ways through them</title>\n\
         <rect width=\"{WIDTH}\" height=\"{height}\" fill=\"#ffffff\"/>\n"
    );
    for (index, floor) in floors.iter().enumerate() {
        let top = (index + 1) * FLOOR;
        let fill = if index % 2 == 0 { "#f3f1ea" } else { "#faf9f5" };
        let _ = writeln!(
            out,
            "<rect y=\"{top}\" width=\"{WIDTH}\" height=\"{FLOOR}\" fill=\"{fill}\"/>\n\
             <text x=\"{NAMES}\" y=\"{}\" font-weight=\"bold\">{}</text>\n\
             <text x=\"{WORDS}\" y=\"{}\" font-size=\"12\">{}</text>",
            top + 27,
            floor.name,
            top + 27,
            escaped(&shortened(&floor.is)),
        );
    }
    let page = tree.read(PAGE)?;
    for ((heading, colour), left) in WAYS.iter().zip(STEPS) {
        way(tree, &mut out, &floors, &page, heading, colour, left)?;
    }
    out.push_str("</svg>\n");
    Ok(out)
}

/// The modules in the order of LAYERS that have a file or folder of their own.
fn floors(tree: &Tree) -> Result<Vec<Floor>, String> {
    let mut floors = Vec::new();
    for line in tree.read("LAYERS")?.lines() {
        let Some((name, rest)) = line.split_once(':') else { continue };
        // A part of a module stands on its module's floor.
        if name.contains([' ', '#']) || rest.starts_with(':') || name == "circles" {
            continue;
        }
        let paths = [format!("{SOURCE}{name}.rs"), format!("{SOURCE}{name}/mod.rs")];
        let files = tree.files("", &[".rs"])?;
        if let Some(file) = files.iter().find(|file| paths.contains(&file.path)) {
            floors.push(Floor { name: name.to_owned(), is: opening(file) });
        }
    }
    match floors.len() {
        0 => Err("LAYERS names no module".into()),
        _ => Ok(floors),
    }
}

/// Draws the numbered steps of the way under `heading` on the floors that their files stand on.
fn way(
    tree: &Tree,
    out: &mut String,
    floors: &[Floor],
    page: &str,
    heading: &str,
    colour: &str,
    left: usize,
) -> Result<(), String> {
    let steps = steps(page, heading)?;
    let title = heading.trim_start_matches("## ");
    let _ = writeln!(
        out,
        "<text x=\"{left}\" y=\"27\" fill=\"{colour}\" font-weight=\"bold\">{title}</text>"
    );
    let mut before: Option<(usize, usize)> = None;
    for (number, path) in steps.iter().enumerate() {
        if !tree.locate(&format!("{SOURCE}{path}")).exists() {
            return Err(format!("{PAGE}: there is no {path}"));
        }
        let name = path.split(['/', '.']).next().unwrap_or_default();
        let Some(floor) = floors.iter().position(|floor| floor.name == name) else {
            return Err(format!("{PAGE}: {path} stands on no floor"));
        };
        let (x, y) = (left + 14 + number * BETWEEN, (floor + 1) * FLOOR + FLOOR / 2);
        if let Some((from_x, from_y)) = before {
            let _ = writeln!(
                out,
                "<line x1=\"{from_x}\" y1=\"{from_y}\" x2=\"{x}\" y2=\"{y}\" \
                 stroke=\"{colour}\" stroke-width=\"1.5\" opacity=\"0.6\"/>"
            );
        }
        let _ = writeln!(
            out,
            "<circle cx=\"{x}\" cy=\"{y}\" r=\"11\" fill=\"{colour}\"/>\n\
             <text x=\"{x}\" y=\"{}\" fill=\"#ffffff\" font-size=\"12\" \
             text-anchor=\"middle\">{}</text>",
            y + 4,
            number + 1,
        );
        before = Some((x, y));
    }
    Ok(())
}

/// The files of a numbered list under a heading: the first in backticks on each item's line.
fn steps(page: &str, heading: &str) -> Result<Vec<String>, String> {
    let (_, rest) =
        page.split_once(&format!("{heading}\n")).ok_or(format!("{PAGE}: no `{heading}`"))?;
    let section = rest.split("\n## ").next().unwrap_or_default();
    let is_item = |line: &&str| {
        line.split_once(". ").is_some_and(|(number, _)| number.parse::<u32>().is_ok())
    };
    let steps: Vec<_> = section
        .lines()
        .filter(is_item)
        .filter_map(|line| line.split('`').nth(1))
        .map(str::to_owned)
        .collect();
    if steps.is_empty() { Err(format!("{PAGE}: no steps under `{heading}`")) } else { Ok(steps) }
}

/// As much of a sentence as fits into its column.
fn shortened(text: &str) -> String {
    const MOST: usize = 78;
    let end = text.find([';', '.']).unwrap_or(text.len());
    let first = &text[..end];
    match first.char_indices().nth(MOST) {
        Some((cut, _)) => format!("{}…", first[..cut].trim_end()),
        None => first.to_owned(),
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('`', "")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::testing::sample;

    const HEAP: &str = "//! The heap: cells.\n";
    const PAGE_TEXT: &str = "# A\n\n## An allocation\n\n1. `heap/mod.rs`: a cell.\n\n\
                             ## A cycle beside the program\n\n1. `heap/mod.rs`: again.\n";

    fn files(page: &str) -> [(&str, &str); 3] {
        [("LAYERS", "heap: base # x\n"), ("crates/neap-core/src/heap/mod.rs", HEAP), (PAGE, page)]
    }

    #[test]
    fn floors_and_steps_are_drawn_and_checked() {
        let sample = sample(&files(PAGE_TEXT));
        assert_eq!(check(&sample.tree).unwrap().len(), 1);
        write(&sample.tree).unwrap();
        assert!(check(&sample.tree).unwrap().is_empty());
        let picture = sample.tree.read(PATH).unwrap();
        assert!(picture.contains(">heap</text>") && picture.contains(">The heap: cells</text>"));
        assert_eq!(picture.matches("<circle").count(), 2);
    }

    #[test]
    fn a_step_in_a_file_that_is_gone_is_an_error() {
        let page = PAGE_TEXT.replacen("heap/mod.rs", "heap/gone.rs", 1);
        assert!(text(&sample(&files(&page)).tree).is_err());
        let page = PAGE_TEXT.replace("## An allocation", "## Another");
        assert!(text(&sample(&files(&page)).tree).is_err());
    }
}
