//! The suite as a picture: four panels of bars, programs side by side, a colour for each mode. SVG,
//! and the same as PNG.
//!
//! Invariant: the PNG is the SVG, drawn. Fonts are the system's. Called by `suite`.

use std::path::Path;
use std::sync::Arc;

use plotters::coord::Shift;
use plotters::prelude::*;
use resvg::{tiny_skia, usvg};

use super::PROGRAMS;
use super::mode::{MODES, Mode};
use super::record::{Figure, Record, Sample};

const WIDTH: u32 = 1500;
const HEIGHT: u32 = 1400;
const FONT: &str = "DejaVu Sans";
/// One for each mode: druntime's in grey and brown, Neap's in blue and green.
const COLOURS: [RGBColor; MODES.len()] = [
    RGBColor(90, 90, 90),
    RGBColor(160, 160, 160),
    RGBColor(200, 120, 50),
    RGBColor(225, 195, 150),
    RGBColor(120, 170, 215),
    RGBColor(20, 90, 170),
    RGBColor(70, 160, 150),
    RGBColor(90, 60, 150),
];

struct Panel {
    title: &'static str,
    figure: Figure,
    /// Smaller values are drawn as this: the axis is logarithmic.
    least: f64,
}

const PANELS: [Panel; 4] = [
    Panel { title: "execution time, s", figure: |sample: &Sample| sample.seconds, least: 0.001 },
    Panel { title: "peak memory, MB", figure: |sample| sample.peak_mb, least: 1.0 },
    Panel { title: "all pauses, ms", figure: |sample| sample.pause_ms, least: 0.01 },
    Panel { title: "longest pause, ms", figure: |sample| sample.longest_ms, least: 0.001 },
];

/// Draws into `folder`.
pub fn draw(record: &Record, folder: &Path) -> Result<(), String> {
    let write = |name: &str, bytes: &[u8]| {
        let path = folder.join(name);
        std::fs::write(&path, bytes)
            .map_err(|error| format!("cannot write {}: {error}", path.display()))
    };
    std::fs::create_dir_all(folder)
        .map_err(|error| format!("cannot make {}: {error}", folder.display()))?;
    let picture = svg(record)?;
    write("gcbench.svg", picture.as_bytes())?;
    write("gcbench.png", &png(&picture)?)
}

fn svg(record: &Record) -> Result<String, String> {
    let complain = |error: &dyn std::fmt::Display| format!("cannot draw the plot: {error}");
    let mut text = String::new();
    {
        let whole = SVGBackend::with_string(&mut text, (WIDTH, HEIGHT)).into_drawing_area();
        whole.fill(&WHITE).map_err(|error| complain(&error))?;
        let (legend, panels) = whole.split_vertically(40);
        draw_legend(&legend).map_err(|error| complain(&error))?;
        for (panel, area) in PANELS.iter().zip(panels.split_evenly((PANELS.len(), 1))) {
            draw_panel(record, panel, &area).map_err(|error| complain(&error))?;
        }
        whole.present().map_err(|error| complain(&error))?;
    }
    Ok(text)
}

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Drawn = Result<(), Box<dyn std::error::Error>>;

fn draw_legend(area: &Area<'_>) -> Drawn {
    let each = WIDTH as i32 / MODES.len() as i32;
    for (index, (mode, colour)) in MODES.iter().zip(COLOURS).enumerate() {
        let left = 10 + index as i32 * each;
        area.draw(&Rectangle::new([(left, 12), (left + 14, 26)], colour.filled()))
            .map_err(|error| error.to_string())?;
        area.draw(&Text::new(mode.name, (left + 20, 12), (FONT, 14)))
            .map_err(|error| error.to_string())?;
    }
    Ok(())
}

fn draw_panel(record: &Record, panel: &Panel, area: &Area<'_>) -> Drawn {
    let value = |program: &str, mode: &Mode| {
        record.middle(program, mode.id, panel.figure).map(|value| value.max(panel.least))
    };
    let all =
        || PROGRAMS.iter().flat_map(|program| MODES.iter().filter_map(|mode| value(program, mode)));
    let most = all().fold(panel.least * 10.0, f64::max) * 1.5;
    let mut chart = ChartBuilder::on(area)
        .caption(panel.title, (FONT, 18))
        .margin(8)
        .x_label_area_size(24)
        .y_label_area_size(60)
        .build_cartesian_2d(0.0..PROGRAMS.len() as f64, (panel.least..most).log_scale())
        .map_err(|error| error.to_string())?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .x_labels(PROGRAMS.len() * 2 + 1)
        // Between two programs is the middle of one.
        .x_label_formatter(&|place| {
            let index = place.floor() as usize;
            if place.fract() == 0.5 {
                PROGRAMS.get(index).map_or("", |name| name).to_owned()
            } else {
                String::new()
            }
        })
        .y_label_formatter(&|value| format!("{value}"))
        .label_style((FONT, 13))
        .draw()
        .map_err(|error| error.to_string())?;
    let width = 0.9 / MODES.len() as f64;
    let bars = PROGRAMS.iter().enumerate().flat_map(|(place, program)| {
        MODES.iter().zip(COLOURS).enumerate().filter_map(move |(index, (mode, colour))| {
            let left = place as f64 + 0.05 + index as f64 * width;
            let top = value(program, mode)?;
            Some(Rectangle::new([(left, panel.least), (left + width, top)], colour.filled()))
        })
    });
    chart.draw_series(bars).map_err(|error| error.to_string())?;
    Ok(())
}

fn png(svg: &str) -> Result<Vec<u8>, String> {
    let mut fonts = usvg::fontdb::Database::new();
    fonts.load_system_fonts();
    if fonts.is_empty() {
        return Err(
            "there is no font to draw the PNG with; Debian's package fonts-dejavu-core has one"
                .to_owned(),
        );
    }
    let options = usvg::Options { fontdb: Arc::new(fonts), ..usvg::Options::default() };
    let tree = usvg::Tree::from_str(svg, &options)
        .map_err(|error| format!("cannot read the plot again: {error}"))?;
    let mut picture = tiny_skia::Pixmap::new(WIDTH, HEIGHT).ok_or("no memory for the PNG")?;
    resvg::render(&tree, tiny_skia::Transform::identity(), &mut picture.as_mut());
    picture.encode_png().map_err(|error| format!("cannot write the PNG: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suite::record::tests::example;

    #[test]
    fn every_program_and_mode_is_drawn() {
        let picture = svg(&example()).expect("drawn");
        assert!(
            PROGRAMS
                .iter()
                .all(|program| picture.matches(&format!("{program}\n")).count() == PANELS.len())
        );
        assert!(MODES.iter().all(|mode| picture.contains(mode.name)));
        let bars = COLOURS.map(|RGBColor(red, green, blue)| {
            picture.matches(&format!("#{red:02X}{green:02X}{blue:02X}")).count()
        });
        assert_eq!(bars, [PROGRAMS.len() * PANELS.len() + 1; MODES.len()]);
    }

    #[test]
    fn the_png_has_the_colours_of_the_svg() {
        let bytes = png(&svg(&example()).expect("drawn")).expect("drawn");
        let picture = tiny_skia::Pixmap::decode_png(&bytes).expect("a PNG");
        assert_eq!((picture.width(), picture.height()), (WIDTH, HEIGHT));
        let RGBColor(red, green, blue) = COLOURS[5];
        assert!(
            picture
                .pixels()
                .iter()
                .any(|pixel| (pixel.red(), pixel.green(), pixel.blue()) == (red, green, blue))
        );
    }
}
