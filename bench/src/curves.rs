//! Curves of minimum mutator utilisation: for each experiment that tells, the program's part of the
//! worst window of 1 to 100 ms. SVG.
//!
//! Invariant: a point is the median of a contestant's runs; an experiment without such figures has
//! no panel. Fonts are the system's. Called by `main`.

use std::path::Path;

use plotters::coord::Shift;
use plotters::prelude::*;

use crate::record::{ContestantRecord, ExperimentRecord, Record};
use crate::statistics::median;

const COLUMNS: usize = 3;
const PANEL: (u32, u32) = (420, 240);
const LEGEND: u32 = 36;
const FONT: &str = "DejaVu Sans";
/// Of the first contestants: libgc, Neap, a control.
const COLOURS: [RGBColor; 4] =
    [RGBColor(90, 90, 90), RGBColor(20, 90, 170), RGBColor(200, 120, 50), RGBColor(70, 160, 150)];
/// Milliseconds, as `bench/cliffs/utilisation.h` has them.
const WINDOWS: [u32; 7] = [1, 2, 5, 10, 20, 50, 100];

/// Writes the picture; an error if no experiment has a curve.
pub fn draw(record: &Record, path: &Path) -> Result<(), String> {
    let complain =
        |error: &dyn std::fmt::Display| format!("cannot draw {}: {error}", path.display());
    let picture = svg(record).map_err(|error| complain(&error))?;
    std::fs::write(path, picture).map_err(|error| complain(&error))
}

/// A contestant's points: window and part.
fn points(contestant: &ContestantRecord) -> Vec<(f64, f64)> {
    let part = |window: u32| {
        let field = format!("mmu.{window}");
        let values: Vec<f64> =
            contestant.samples.iter().filter_map(|sample| sample.get(&field).copied()).collect();
        median(&values).map(|part| (f64::from(window), part))
    };
    WINDOWS.into_iter().filter_map(part).collect()
}

fn has_curve(experiment: &ExperimentRecord) -> bool {
    experiment.contestants.iter().any(|contestant| !points(contestant).is_empty())
}

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Drawn = Result<(), Box<dyn std::error::Error>>;

fn svg(record: &Record) -> Result<String, Box<dyn std::error::Error>> {
    let shown: Vec<&ExperimentRecord> =
        record.experiments.iter().filter(|experiment| has_curve(experiment)).collect();
    if shown.is_empty() {
        return Err("no experiment has figures of utilisation".into());
    }
    let rows = shown.len().div_ceil(COLUMNS);
    let size = (PANEL.0 * COLUMNS as u32, PANEL.1 * rows as u32 + LEGEND);
    let labels = labels(&shown);
    let mut text = String::new();
    {
        let whole = SVGBackend::with_string(&mut text, size).into_drawing_area();
        whole.fill(&WHITE).map_err(|error| error.to_string())?;
        let (legend, panels) = whole.split_vertically(LEGEND);
        draw_legend(&labels, &legend)?;
        for (experiment, area) in shown.iter().zip(panels.split_evenly((rows, COLUMNS))) {
            draw_panel(experiment, &labels, &area)?;
        }
        whole.present().map_err(|error| error.to_string())?;
    }
    Ok(text)
}

/// Those who have a curve, each once, in order of appearance.
fn labels(shown: &[&ExperimentRecord]) -> Vec<String> {
    let mut labels = Vec::new();
    for contestant in shown.iter().flat_map(|experiment| &experiment.contestants) {
        if !points(contestant).is_empty() && !labels.contains(&contestant.label) {
            labels.push(contestant.label.clone());
        }
    }
    labels
}

fn colour(labels: &[String], label: &str) -> RGBColor {
    let place = labels.iter().position(|other| other == label).unwrap_or(0);
    COLOURS[place % COLOURS.len()]
}

fn draw_legend(labels: &[String], area: &Area<'_>) -> Drawn {
    let each = (PANEL.0 as usize * COLUMNS / labels.len().max(4)) as i32;
    for (index, label) in labels.iter().enumerate() {
        let left = 10 + index as i32 * each;
        let square = Rectangle::new([(left, 12), (left + 14, 26)], colour(labels, label).filled());
        area.draw(&square).map_err(|error| error.to_string())?;
        area.draw(&Text::new(label.as_str(), (left + 20, 12), (FONT, 14)))
            .map_err(|error| error.to_string())?;
    }
    Ok(())
}

fn draw_panel(experiment: &ExperimentRecord, labels: &[String], area: &Area<'_>) -> Drawn {
    let mut chart = ChartBuilder::on(area)
        .caption(&experiment.name, (FONT, 15))
        .margin(8)
        .x_label_area_size(24)
        .y_label_area_size(40)
        .build_cartesian_2d((1.0..100.0).log_scale(), 0.0..1.0)
        .map_err(|error| error.to_string())?;
    chart
        .configure_mesh()
        .x_labels(3)
        .y_labels(5)
        .x_label_formatter(&|window| format!("{window} ms"))
        .label_style((FONT, 12))
        .draw()
        .map_err(|error| error.to_string())?;
    for contestant in &experiment.contestants {
        let style = colour(labels, &contestant.label).stroke_width(2);
        let curve = PathElement::new(points(contestant), style);
        chart.draw_series([curve]).map_err(|error| error.to_string())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::tests::example;

    #[test]
    fn experiments_with_figures_have_a_panel_and_a_curve_for_each_contestant() {
        let mut record = example();
        assert!(svg(&record).expect_err("has none").to_string().contains("no experiment"));
        let with = record.experiments[0].clone();
        for contestant in &mut record.experiments[0].contestants {
            for sample in &mut contestant.samples {
                sample.extend(WINDOWS.map(|window| (format!("mmu.{window}"), 0.5)));
            }
        }
        record.experiments.push(ExperimentRecord { name: "without".to_owned(), ..with });
        let picture = svg(&record).expect("drawn");
        assert!(picture.contains(&record.experiments[0].name) && !picture.contains("without"));
        let curves = COLOURS.map(|RGBColor(red, green, blue)| {
            picture.matches(&format!("stroke=\"#{red:02X}{green:02X}{blue:02X}\"")).count()
        });
        let contestants = record.experiments[0].contestants.len();
        assert_eq!(curves.iter().filter(|&&count| count == 1).count(), contestants);
        for label in labels(&[&record.experiments[0]]) {
            assert!(picture.contains(&label));
        }
    }
}
