//! A heap snapshot, or two of them, as text and as JSON.
//!
//! Pure.

use super::{Analysis, By, Group, NameVariable};
use crate::units::{bytes, count};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write;

/// Steps of a path that are shown at its beginning and at its end.
const STEPS: usize = 12;

/// What there is and what it keeps alive, in tables of so many rows.
pub fn tables(analysis: &Analysis, rows: usize) -> String {
    let mut out = String::new();
    let (mut objects, mut own) = (0, 0);
    for object in analysis.objects() {
        objects += 1;
        own += analysis.graph.node(object).bytes;
    }
    let _ = writeln!(out, "live         {} objects, {}", count(objects), bytes(own));
    types(&mut out, &analysis.groups(By::Name), rows);
    sites(&mut out, analysis, rows);
    let _ = writeln!(out, "\nroots\n  {:>12}  {:>9}", "retained", "pointers");
    let mut roots: Vec<u32> = analysis.roots().collect();
    roots.sort_by_key(|root| (core::cmp::Reverse(analysis.retained(*root)), *root));
    for root in roots.iter().take(rows) {
        let pointers = count(analysis.graph.edges_of(*root).len() as u64);
        let (retained, name) = (bytes(analysis.retained(*root)), analysis.graph.name(*root));
        let _ = writeln!(out, "  {retained:>12}  {pointers:>9}  {name}");
    }
    more(&mut out, roots.len(), rows);
    let _ = writeln!(
        out,
        "\nobjects that keep most alive\n  {:>12}  {:>12}  {:>18}  type",
        "retained", "own", "address"
    );
    for object in analysis.largest(None, rows) {
        let _ = writeln!(
            out,
            "  {:>12}  {:>12}  {:>18}  {}",
            bytes(analysis.retained(object)),
            bytes(analysis.graph.node(object).bytes),
            address(analysis, object),
            called(analysis, object)
        );
    }
    out
}

fn more(out: &mut String, all: usize, shown: usize) {
    if all > shown {
        let _ = writeln!(out, "  and {} more", count((all - shown) as u64));
    }
}

fn sites(out: &mut String, analysis: &Analysis, rows: usize) {
    let sites = analysis.groups(By::Site);
    if sites.is_empty() {
        let _ = writeln!(
            out,
            "\nno allocation sites: run the program with NEAP_SAMPLE and NEAP_STATS to have them"
        );
        return;
    }
    let _ = writeln!(out, "\n{}", site_title(analysis));
    let _ = writeln!(
        out,
        "  {:>12}  {:>12}  {:>12}  {:>12}",
        "objects", "bytes", "sampled", "these retain"
    );
    let about = if analysis.is_estimated() { "~" } else { "" };
    for (name, group) in sorted(&sites).iter().take(rows) {
        let _ = writeln!(
            out,
            "  {:>12}  {:>12}  {:>12}  {:>12}  {name}",
            format!("{about}{}", count(group.objects)),
            format!("{about}{}", bytes(group.bytes)),
            count(group.found),
            bytes(group.retained)
        );
    }
    more(out, sites.len(), rows);
}

/// What the table of sites says, and from what.
fn site_title(analysis: &Analysis) -> String {
    match analysis.is_estimated() {
        true => {
            let mean = bytes(analysis.graph.sample_bytes);
            format!("objects by allocation site (about: estimated from samples, one in {mean})")
        }
        false => "sampled objects by allocation site (the snapshot does not say of how many: it \
                  is an older version's)"
            .to_owned(),
    }
}

fn types(out: &mut String, groups: &BTreeMap<&str, Group>, rows: usize) {
    let heads = ["objects", "bytes", "retained"];
    let _ =
        writeln!(out, "\nobjects by type\n  {:>12}  {:>12}  {:>12}", heads[0], heads[1], heads[2]);
    for (name, group) in sorted(groups).iter().take(rows) {
        let Group { objects, bytes: own, retained, .. } = group;
        let _ = writeln!(
            out,
            "  {:>12}  {:>12}  {:>12}  {name}",
            count(*objects),
            bytes(*own),
            bytes(*retained)
        );
    }
    more(out, groups.len(), rows);
}

fn sorted<'a>(groups: &BTreeMap<&'a str, Group>) -> Vec<(&'a str, Group)> {
    let mut rows: Vec<_> = groups.iter().map(|(name, group)| (*name, *group)).collect();
    rows.sort_by_key(|(name, group)| (core::cmp::Reverse(group.bytes), *name));
    rows
}

fn address(analysis: &Analysis, object: u32) -> String {
    let found = analysis.graph.address(object);
    found.map_or_else(|| "?".to_owned(), |address| format!("{address:#x}"))
}

fn called(analysis: &Analysis, object: u32) -> String {
    let name = analysis.graph.name(object);
    match analysis.site(object) {
        Some(site) => format!("{name}, made by {site}"),
        None => name.to_owned(),
    }
}

/// What keeps objects alive: for each a shortest path from the roots.
pub fn paths(analysis: &Analysis, objects: &[u32], variable: &mut NameVariable<'_>) -> String {
    let mut out = String::new();
    for (index, object) in objects.iter().enumerate() {
        let gap = if index == 0 { "" } else { "\n" };
        let _ = writeln!(
            out,
            "{gap}{} {}: {}, retains {}",
            address(analysis, *object),
            called(analysis, *object),
            bytes(analysis.graph.node(*object).bytes),
            bytes(analysis.retained(*object)),
        );
        let Some(path) = analysis.path(*object) else {
            let _ = writeln!(out, "  nothing keeps it alive");
            continue;
        };
        let left_out = path.len().saturating_sub(2 * STEPS);
        for (step, (node, place)) in path.iter().enumerate() {
            if left_out > 0 && step == STEPS {
                let _ = writeln!(out, "  … {} objects", count(left_out as u64));
            }
            if left_out > 0 && (STEPS..STEPS + left_out).contains(&step) {
                continue;
            }
            let _ = writeln!(out, "  {}", step_text(analysis, *node, *place, variable));
        }
        if let Some(dominator) = analysis.dominator(*object) {
            let name = called(analysis, dominator);
            let _ = match analysis.graph.is_root(dominator) {
                true => writeln!(out, "  all paths begin in {name}"),
                false => {
                    writeln!(out, "  all paths go through {} {name}", address(analysis, dominator))
                }
            };
        }
    }
    out
}

fn step_text(
    analysis: &Analysis,
    node: u32,
    place: Option<u64>,
    variable: &mut NameVariable<'_>,
) -> String {
    let graph = &analysis.graph;
    if !graph.is_root(node) {
        let place = place.map_or(String::new(), |place| format!(" [word {place}]"));
        return format!("{} {}{place}", address(analysis, node), graph.name(node));
    }
    let place = place.unwrap_or(0);
    match graph.static_data(node) {
        Some(module) => {
            let file = module.path.rsplit('/').next().unwrap_or_default();
            match variable(module, place) {
                Some(name) => format!("variable {name} of {file}"),
                None => format!("{file}+{place:#x} ({})", graph.name(node)),
            }
        }
        None if place != 0 => format!("{} at {place:#x}", graph.name(node)),
        None => graph.name(node).to_owned(),
    }
}

/// Two snapshots of one program: what became more and what less.
pub fn compare(old: &Analysis, new: &Analysis, rows: usize) -> String {
    let mut out = String::new();
    let by_site = site_title(if old.is_estimated() { new } else { old });
    for (by, title) in [(By::Name, "objects by type"), (site(old, new), by_site.as_str())] {
        let changes = changes(old, new, by);
        if by != By::Name && changes.is_empty() {
            continue;
        }
        let gap = if out.is_empty() { "" } else { "\n" };
        let _ = writeln!(
            out,
            "{gap}{title}, new less old\n  {:>12}  {:>12}  {:>12}",
            "objects", "bytes", "bytes now"
        );
        for (name, before, after) in changes.iter().take(rows) {
            let _ = writeln!(
                out,
                "  {:>12}  {:>12}  {:>12}  {name}",
                signed(before.objects, after.objects, count),
                signed(before.bytes, after.bytes, bytes),
                bytes(after.bytes)
            );
        }
        if changes.is_empty() {
            let _ = writeln!(out, "  no difference");
        }
        more(&mut out, changes.len(), rows);
    }
    out
}

/// Estimates are compared with estimates only.
fn site(old: &Analysis, new: &Analysis) -> By {
    if old.is_estimated() && new.is_estimated() { By::Site } else { By::Sampled }
}

fn signed(before: u64, after: u64, show: fn(u64) -> String) -> String {
    match after >= before {
        true => format!("+{}", show(after - before)),
        false => format!("-{}", show(before - after)),
    }
}

/// Groups that differ, those that do by most bytes first.
fn changes<'a>(old: &'a Analysis, new: &'a Analysis, by: By) -> Vec<(&'a str, Group, Group)> {
    let (old, new) = (old.groups(by), new.groups(by));
    let mut all: BTreeMap<&str, (Group, Group)> = BTreeMap::new();
    old.iter().for_each(|(name, group)| all.entry(*name).or_default().0 = *group);
    new.iter().for_each(|(name, group)| all.entry(*name).or_default().1 = *group);
    let mut rows: Vec<_> = all
        .into_iter()
        .filter(|(_, (a, b))| (a.objects, a.bytes) != (b.objects, b.bytes))
        .map(|(name, (a, b))| (name, a, b))
        .collect();
    rows.sort_by_key(|(name, a, b)| (core::cmp::Reverse(a.bytes.abs_diff(b.bytes)), *name));
    rows
}

/// The differences as JSON.
pub fn compare_json(old: &Analysis, new: &Analysis) -> Value {
    let of = |by| -> Value {
        let rows = changes(old, new, by).into_iter();
        rows.map(|(name, a, b)| json!({ "name": name, "old": group(a), "new": group(b) })).collect()
    };
    json!({ "types": of(By::Name), "sites": of(site(old, new)) })
}

fn group(group: Group) -> Value {
    json!({ "objects": group.objects, "bytes": group.bytes, "retained": group.retained })
}

/// The tables as JSON; or, of some objects, their paths.
pub fn json(
    analysis: &Analysis,
    objects: Option<&[u32]>,
    rows: usize,
    variable: &mut NameVariable<'_>,
) -> Value {
    let of = |by| -> Value {
        let rows = sorted(&analysis.groups(by)).into_iter();
        rows.map(|(name, sizes)| match by {
            By::Name => json!({ "name": name, "sizes": group(sizes) }),
            _ => json!({ "name": name, "sizes": group(sizes), "samples": sizes.found }),
        })
        .collect()
    };
    let largest = analysis.largest(None, rows);
    let shown = objects.unwrap_or(&largest);
    let shown: Vec<Value> = shown
        .iter()
        .map(|object| {
            let path = analysis.path(*object).unwrap_or_default().into_iter();
            let path = path.map(|(node, place)| step_text(analysis, node, place, variable));
            json!({
                "address": analysis.graph.address(*object),
                "type": analysis.graph.name(*object),
                "site": analysis.site(*object),
                "bytes": analysis.graph.node(*object).bytes,
                "retained": analysis.retained(*object),
                "path": path.collect::<Vec<_>>(),
            })
        })
        .collect();
    if objects.is_some() {
        return json!({ "objects": shown });
    }
    let root = |node| {
        json!({
            "name": analysis.graph.name(node),
            "retained": analysis.retained(node),
            "pointers": analysis.graph.edges_of(node).len(),
        })
    };
    json!({
        "types": of(By::Name),
        "sites": of(By::Site),
        "sites_are_estimated": analysis.is_estimated(),
        "roots": analysis.roots().map(root).collect::<Vec<_>>(),
        "objects": shown,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::heap::graph::{Graph, tests::file};

    fn read(change: impl FnOnce(&mut Value)) -> Analysis {
        let mut file = file();
        change(&mut file);
        let graph = Graph::read(file.to_string().as_bytes()).unwrap();
        Analysis::new(graph, &mut |_, _| vec!["make".to_owned().into()])
    }

    #[test]
    fn the_known_graph_as_text() {
        let analysis = read(|_| {});
        let said = tables(&analysis, 20);
        assert!(said.starts_with("live         2 objects, 64 B\n"), "{said}");
        let row = "           ~11        ~431 B             1          48 B  make\n";
        assert!(said.contains(row) && said.contains("site (about: estimated from"), "{said}");
        let older = tables(&read(|file| file["snapshot"]["neap"]["sizes"] = json!([])), 20);
        let row = "             1          48 B             1          48 B  make\n";
        assert!(older.contains(row) && older.contains("sampled objects by"), "{older}");
        let mut variable = |module: &crate::heap::Module, address: u64| {
            assert_eq!((module.path.as_str(), address), ("/bin/x", 0x440));
            Some("table".to_owned())
        };
        let said = paths(&analysis, &[3], &mut variable);
        let wanted = "0x1010 leaf, made by make: 48 B, retains 48 B\n  variable table of x\n  \
                      0x1000 pair [word 1]\n  0x1010 leaf\n  all paths go through 0x1000 pair\n";
        assert_eq!(said, wanted);
        let unnamed = paths(&analysis, &[2], &mut |_, _| None);
        assert!(unnamed.contains("  x+0x440 (static data of /bin/x)\n"), "{unnamed}");
    }

    #[test]
    fn differences_are_new_less_old() {
        let (old, new) = (read(|_| {}), read(|file| file["nodes"][18] = json!(40)));
        let said = compare(&old, &new, 20);
        assert!(said.contains("            +0          -8 B          40 B  leaf\n"), "{said}");
        assert!(!said.contains("pair"), "{said}");
        assert!(compare(&old, &old, 20).contains("no difference"));
        assert_eq!(compare_json(&old, &new)["types"][0]["new"]["bytes"], 40);
        let all = json(&old, None, 20, &mut |_, _| None);
        assert_eq!(all["roots"][0]["retained"], 64);
    }
}
