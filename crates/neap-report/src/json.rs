//! The summary and what plots need, as JSON.
//!
//! Invariant: names are those of the declaration in `neap-record`, sizes bytes, times nanoseconds.
//! What is long is thinned out to a bounded length by keeping, of neighbours, the one with the
//! longest stop. Pure.

use crate::cost::Cost;
use crate::sites::{self, Site};
use crate::summary::{Summary, memories};
use crate::unfinished::Unfinished;
use neap_record::chunks::Shape;
use neap_record::{Census, Cycle, Figure, KIND_NAMES, Recording, Statistics};
use serde_json::{Map, Value, json};

/// Everything that is bounded in size, for programs.
pub fn json(recording: &Recording, sites: &[Site]) -> Value {
    let summary = Summary::of(recording);
    let process = &recording.process;
    json!({
        "process": {
            "id": process.id,
            "parent": process.parent,
            "command": process.command,
            "began_unix_ns": process.began_unix_ns,
            "ended_ns": recording.ended_ns,
            "length_ns": summary.length_ns,
            "version": process.version,
            "watch": process.watch,
            "options": recording.options.iter().cloned()
                .collect::<std::collections::BTreeMap<_, _>>(),
        },
        "problems": recording.problems,
        "lost_events": recording.conditions.lost,
        "requested": requested(&summary),
        "allocated": cost(&summary.total),
        "padding_bytes": summary.padding,
        "resized_in_place": recording.conditions.resized_in_place,
        "powers_of_two": {
            "conservative": cost(&summary.powers_of_two.conservative),
            "with_type_pointers": cost(&summary.powers_of_two.with_type_pointers),
        },
        "classes": bins(&summary.classes, "cell"),
        "threads": summary.threads.iter().map(|(number, sums)| {
            let thread = recording.threads.get(number).cloned().unwrap_or_default();
            json!({
                "id": thread.id,
                "name": thread.name,
                "objects": sums.objects,
                "requested": sums.requested,
                "allocated": sums.allocated,
            })
        }).collect::<Vec<_>>(),
        "layouts": summary.layouts.iter().map(|row| json!({
            "number": row.number,
            "name": row.name,
            "shape": shape(row.shape),
            "objects": row.objects,
            "bytes": row.bytes,
            "not_scanned_bytes": row.not_scanned,
        })).collect::<Vec<_>>(),
        "bytes_per_typed_object": summary.bytes_per_typed_object(),
        "words_not_scanned": summary.words_saved(),
        "sample_bytes": process.sample_bytes,
        "sites": sites::json(recording, sites),
        "stops": {
            "count": summary.stops.count(),
            "total_ns": summary.stops.total(),
            "max_ns": summary.stops.max(),
            "p99_ns": summary.stops.percentile(0.99),
            "p50_ns": summary.stops.percentile(0.5),
            "kinds": summary.stops.kinds()
                .map(|(kind, count)| (kind.name().to_owned(), count.into()))
                .collect::<Map<_, _>>(),
        },
        "yield_bytes": summary.yielded,
        "memory": summary.memory.map(|memory| json!({
            "cycle": memory.cycle,
            "committed_bytes": memory.committed,
            "live_bytes": memory.live,
            "fragmentation_bytes": memory.fragmentation,
            "room_bytes": memory.room,
            "spare_bytes": memory.spare,
            "beside_room": memory.beside_room(),
            "beside_room_median": summary.beside_room,
        })),
        "statistics": figures(Statistics::FIGURES, &summary.statistics.values()),
        "cycles": recording.cycles.iter()
            .map(|cycle| figures(Cycle::FIGURES, &cycle.values()))
            .chain(Unfinished::of(recording).map(|cycle| cycle.json()))
            .collect::<Vec<_>>(),
    })
}

/// What the page draws besides: series over time, the heap's maps, the census of the last cycle.
pub fn series(recording: &Recording) -> Value {
    let memory: std::collections::BTreeMap<u64, _> =
        memories(recording).into_iter().map(|memory| (memory.cycle, memory)).collect();
    let cycles: Vec<Value> =
        thinned(&recording.cycles, MOST_POINTS, |cycle| cycle.longest_stop_ns.max(cycle.pause_ns))
            .map(|cycle| {
                let mut values = figures(Cycle::FIGURES, &cycle.values());
                if let Some(memory) = memory.get(&cycle.number) {
                    values["fragmentation_bytes"] = memory.fragmentation.into();
                    values["spare_bytes"] = memory.spare.into();
                    values["beside_room"] = memory.beside_room().into();
                }
                values
            })
            .collect();
    let stops: Vec<Value> = thinned(&recording.stops, MOST_POINTS, |stop| stop.length_ns)
        .map(|stop| json!([stop.ended_ns(), stop.length_ns, stop.kind.name(), stop.cycle]))
        .collect();
    let step = recording.moments.len().div_ceil(MOST_POINTS).max(1);
    let moments: Vec<Value> = recording
        .moments
        .iter()
        .enumerate()
        .filter(|(index, _)| index % step == 0 || index + 1 == recording.moments.len())
        .map(|(_, moment)| json!([moment.at_ns, moment.objects, moment.bytes]))
        .collect();
    let step = recording.maps.len().div_ceil(MOST_MAPS).max(1);
    let maps: Vec<Value> = recording
        .maps
        .iter()
        .rev()
        .step_by(step)
        .map(|map| {
            json!({
                "cycle": map.cycle, "stretch_bytes": map.stretch_bytes, "filled": map.filled,
            })
        })
        .collect();
    let last = recording.census.last().map_or(0, |entry| entry.0);
    let census: Vec<Value> = recording
        .census
        .iter()
        .filter(|entry| entry.0 == last)
        .map(|(_, kind, class, census)| {
            let mut values = figures(Census::FIGURES, &census.values());
            values["kind"] = KIND_NAMES[*kind].into();
            values["cell"] = recording.process.cells.get(*class as usize).copied().into();
            values
        })
        .collect();
    json!({
        "cycles": cycles,
        "stops": stops,
        "moments": moments,
        "maps": maps.into_iter().rev().collect::<Vec<_>>(),
        "census": census,
    })
}

/// Points of a series, and maps, that a page holds at most.
const MOST_POINTS: usize = 4000;
const MOST_MAPS: usize = 60;

/// At most `most` of them: of each group of neighbours the one that is longest.
fn thinned<T>(all: &[T], most: usize, length: impl Fn(&T) -> u64) -> impl Iterator<Item = &T> {
    let group = all.len().div_ceil(most).max(1);
    all.chunks(group).filter_map(move |group| group.iter().max_by_key(|one| length(one)))
}

fn cost(cost: &Cost) -> Value {
    json!({
        "objects": cost.objects, "requested": cost.requested,
        "allocated": cost.allocated, "wasted": cost.wasted(),
    })
}

/// The pattern, in the shape of published ones.
fn requested(summary: &Summary) -> Value {
    let part = |cost: &Cost| json!({ "objects": cost.objects, "bytes": cost.requested });
    json!({
        "objects": summary.total.objects,
        "bytes": summary.total.requested,
        "scanned": part(&summary.scanned),
        "not_scanned": part(&summary.not_scanned),
        "different_sizes": summary.different_sizes,
        "bins": bins(&summary.bins, "bin"),
        "kinds": KIND_NAMES.iter().zip(&summary.kinds)
            .map(|(name, sums)| (name.to_string(), cost(sums)))
            .collect::<Map<_, _>>(),
    })
}

fn bins(rows: &[(Option<u64>, Cost)], name: &str) -> Vec<Value> {
    rows.iter()
        .map(|(bin, sums)| {
            let mut row = cost(sums);
            row[name] = bin.map_or_else(|| Value::from("pages"), Value::from);
            row["bytes"] = sums.requested.into();
            row
        })
        .collect()
}

fn shape(shape: Option<Shape>) -> Value {
    match shape {
        Some(Shape::Bitmap { element_words, pointer_words }) => {
            json!({ "element_words": element_words, "pointer_words": pointer_words })
        }
        Some(Shape::Prefix { bytes }) => json!({ "prefix_bytes": bytes }),
        Some(Shape::Function) => json!("function"),
        None => Value::Null,
    }
}

fn figures(declared: &[Figure], values: &[u64]) -> Value {
    let named = declared.iter().zip(values);
    Value::Object(named.map(|(figure, value)| (figure.name.to_owned(), (*value).into())).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::summary::tests::sample;

    #[test]
    fn names_and_sums_are_there() {
        let json = json(&sample(), &[]);
        assert_eq!(json["requested"]["objects"], 22);
        assert_eq!(json["requested"]["bins"][0]["bin"], 32);
        assert_eq!(json["requested"]["bins"][3]["bin"], "pages");
        assert_eq!(json["allocated"]["wasted"], 2496);
        assert_eq!(json["cycles"][1]["first_ns"], 300_000);
        assert_eq!(json["memory"]["spare_bytes"], 712);
        assert_eq!(json["bytes_per_typed_object"], 0.0);
        let cut = super::json(&crate::unfinished::tests::ends_in_a_cycle(), &[]);
        assert_eq!((&cut["cycles"][2]["stops"], &cut["stops"]["count"]), (&json!(2), &json!(5)));
    }

    #[test]
    fn long_series_are_thinned_and_keep_the_longest_stop() {
        let mut recording = sample();
        recording.cycles = (0..50_000)
            .map(|number| Cycle { number, pause_ns: number * 7 % 49_999, ..Cycle::default() })
            .collect();
        let series = series(&recording);
        let cycles = series["cycles"].as_array().unwrap();
        assert!(cycles.len() <= MOST_POINTS + 1);
        assert!(cycles.iter().any(|cycle| cycle["pause_ns"] == 49_998));
        assert_eq!(series["maps"][0]["filled"], json!([255, 0, 3]));
    }
}
