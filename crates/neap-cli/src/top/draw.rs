//! Draws a history on a terminal of any size. Pure: what is drawn depends on the history and the
//! frame only.

use super::figures::{bytes, duration, rows, short_rows};
use super::history::History;
use crate::option_table::wrap;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Text};
use ratatui::widgets::{Block, Gauge, Paragraph, Row, Sparkline, Table};

/// Height of a chart with its border, and where there is little room.
const CHART: u16 = 7;
const SMALL_CHART: u16 = 5;
/// Width of a chart at least.
const CHART_WIDTH: u16 = 20;
/// Width of the names of rows, with a space.
const NAMES: u16 = 12;

/// Draws the view: how full the heap is, the figures, allocation and heap over time, and below them
/// the last lines of the program's output, if there are any. Where the rows have no room beside a
/// chart they are short, the stops first; those that have none then are left out whole.
pub fn draw(frame: &mut Frame, history: &History, output: &[String]) {
    let area = frame.area();
    let room = usize::from(area.width.saturating_sub(NAMES)).max(1);
    let below_gauge = area.height.saturating_sub(2);
    let wrapped = |rows: Vec<(String, String)>| -> (Vec<(String, Vec<String>)>, usize) {
        let wrap = |(name, value): (_, String)| match value.chars().count() {
            // As it is, with what is below each other.
            columns if columns <= room => (name, vec![value]),
            _ => (name, wrap(&value, room)),
        };
        let rows: Vec<_> = rows.into_iter().map(wrap).collect();
        let lines = rows.iter().map(|(_, lines)| lines.len()).sum();
        (rows, lines)
    };
    let (mut rows, mut lines) = wrapped(rows(history));
    if lines + usize::from(SMALL_CHART) > usize::from(below_gauge) {
        (rows, lines) = wrapped(short_rows(history));
    }
    let charts = [CHART, SMALL_CHART]
        .into_iter()
        .find(|height| usize::from(below_gauge) > lines + usize::from(*height))
        .unwrap_or(if below_gauge >= 2 + SMALL_CHART { SMALL_CHART } else { 0 });
    let for_table = below_gauge.saturating_sub(charts).min(lines as u16 + 1);
    let [title, gauge, table, chart, rest] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Length(for_table),
        Constraint::Length(charts),
        Constraint::Min(0),
    ])
    .areas(area);
    let name = fitting(area.width, [history.title(), history.short_title()]);
    frame.render_widget(Line::styled(name, Style::new().add_modifier(Modifier::BOLD)), title);
    heap_gauge(frame, history, gauge);
    let mut left = usize::from(for_table);
    let shown = rows.into_iter().filter_map(|(name, lines)| {
        let height = lines.len();
        left = left.checked_sub(height)?;
        let name = Text::styled(name, Style::new().fg(Color::Cyan));
        let value = Text::from_iter(lines);
        Some(Row::new([name, value]).height(height as u16))
    });
    let widths = [Constraint::Length(NAMES - 1), Constraint::Min(0)];
    frame.render_widget(Table::new(shown.collect::<Vec<_>>(), widths), table);
    if charts > 0 {
        over_time(frame, history, chart);
    }
    last_lines(frame, output, rest);
}

/// Draws what is waited for, and below it the last lines of the program's output.
pub fn draw_waiting(frame: &mut Frame, text: &str, output: &[String]) {
    let lines = wrap(text, usize::from(frame.area().width).max(1));
    let height = lines.len() as u16;
    let [waiting, rest] =
        Layout::vertical([Constraint::Length(height), Constraint::Min(0)]).areas(frame.area());
    frame.render_widget(Paragraph::new(Text::from_iter(lines)), waiting);
    last_lines(frame, output, rest);
}

/// As many of the last lines of the program's output as have room, if there are any.
fn last_lines(frame: &mut Frame, output: &[String], area: Rect) {
    if !output.is_empty() && area.height > 1 {
        let room = usize::from(area.height) - 1;
        let last =
            output[output.len().saturating_sub(room)..].iter().map(|line| Line::raw(&**line));
        let block = Block::new().borders(ratatui::widgets::Borders::TOP).title("output");
        frame.render_widget(Paragraph::new(last.collect::<Vec<_>>()).block(block), area);
    }
}

/// The first of these texts that has room, or the last.
fn fitting<const FORMS: usize>(width: u16, forms: [String; FORMS]) -> String {
    let fits = |text: &&String| text.chars().count() <= usize::from(width);
    forms.iter().find(fits).or(forms.last()).cloned().unwrap_or_default()
}

/// How much of what may be allocated before the next cycle is.
fn heap_gauge(frame: &mut Frame, history: &History, area: Rect) {
    let page = history.now();
    let cycle = page.cycle.unwrap_or_default();
    let until = cycle.live_bytes.saturating_add(cycle.next_bytes);
    let part = if until == 0 { 0.0 } else { page.live.used_bytes as f64 / until as f64 };
    let used = bytes(page.live.used_bytes);
    let label = match until {
        0 if page.live.cycles > 0 => used,
        0 => fitting(area.width, [format!("{used}, no cycle yet"), used]),
        _ => {
            let short = format!("{used} of {}", bytes(until));
            fitting(area.width, [format!("{short} until the next cycle"), short])
        }
    };
    let gauge = Gauge::default().ratio(part.clamp(0.0, 1.0)).label(label);
    frame.render_widget(gauge.gauge_style(Style::new().fg(Color::Blue)), area);
}

fn over_time(frame: &mut Frame, history: &History, area: Rect) {
    let columns = usize::from(area.width);
    let most = |values: &[u64]| values.iter().copied().max().unwrap_or(0);
    let allocation = history.rates(columns, |page| page.live.handed_out_bytes);
    let used = history.values(columns, |page| page.live.used_bytes);
    let stopped = history.rates(columns, |page| page.live.pause_total_ns);
    let charts = [
        (
            "allocation",
            "alloc.",
            format!("{}/s", bytes(most(&allocation))),
            "",
            allocation,
            Color::Green,
        ),
        ("heap", "heap", bytes(most(&used)), "", used, Color::Blue),
        ("stopped", "stopped", duration(most(&stopped)), " in 1 s", stopped, Color::Red),
    ];
    let count = (area.width / CHART_WIDTH).clamp(1, charts.len() as u16);
    let areas = Layout::horizontal(vec![Constraint::Fill(1); usize::from(count)]).split(area);
    for ((name, short, most, unit, values, color), area) in charts.into_iter().zip(areas.iter()) {
        let room = area.width.saturating_sub(2);
        let shown = &values[values.len().saturating_sub(usize::from(room))..];
        let long = format!("{name}, to {most}{unit}");
        let title =
            fitting(room, [long, format!("{name} {most}"), format!("{short} {most}"), most]);
        let line = Sparkline::default().data(shown).style(Style::new().fg(color));
        frame.render_widget(line.block(Block::bordered().title(title)), *area);
    }
}

#[cfg(test)]
mod tests {
    use super::super::history::tests::history;
    use super::*;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    fn drawn(width: u16, height: u16, output: &[&str]) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        let output: Vec<String> = output.iter().map(|&line| line.to_owned()).collect();
        let mut history = history(&[0, 1 << 20, 5 << 20]);
        // Four of the six stops came while it was watched.
        history.first_had(2);
        terminal.draw(|frame| draw(frame, &history, &output)).unwrap();
        terminal.backend().to_string()
    }

    #[test]
    fn everything_is_there_on_an_ordinary_terminal() {
        let text = drawn(100, 30, &["first", "second"]);
        for wanted in [
            "neap top: process 7 (client)",
            "48.0 MiB of 40.0 MiB until the next cycle",
            "phase mark",
            "allocation, to 4.00 MiB/s",
            "heap, to 48.0 MiB",
            "second",
            "█",
        ] {
            assert!(text.contains(wanted), "{wanted}\n{text}");
        }
    }

    /// Every row that is shown is shown whole, and there are plots.
    #[test]
    fn nothing_is_cut_on_a_terminal_of_eighty_columns_or_forty() {
        for (width, height, wanted) in [
            (
                80,
                24,
                &[
                    "threads",
                    "address range",
                    "since neap top began, 2 s: 4 stops",
                    "longest 426 µs",
                    "of the time",
                    "references 0 ns",
                    "stopped",
                ][..],
            ),
            (
                40,
                12,
                // Above all, what is asked for most.
                &[
                    "stops       p50      p99      longest ",
                    "all 6       426 µs   426 µs   900 µs ",
                    "watched 2s  426 µs   426 µs   426 µs ",
                    "heap        48.0 MiB, 20.0 MiB live",
                    "cycles      5, 0.0/s, mark",
                    "alloc. 4.00 MiB/s",
                    "heap, to 48.0 MiB",
                    "48.0 MiB of 40.0",
                ],
            ),
        ] {
            let text = drawn(width, height, &[]);
            for wanted in wanted {
                assert!(text.contains(wanted), "{wanted}\n{text}");
            }
            assert!(text.contains('█') && text.contains('┌'), "{text}");
        }
    }

    /// Whoever wrote the page may have written anything.
    #[test]
    fn figures_beyond_all_bounds_are_drawn() {
        use neap_record::{Cycle, live::Page};
        let mut history = history(&[0]);
        let most = Cycle {
            first_ns: u64::MAX,
            short_stops_ns: u64::MAX,
            pause_ns: 1,
            live_bytes: u64::MAX,
            next_bytes: 1,
            ..Cycle::default()
        };
        let page = Page { cycle: Some(most), ..Page::default() };
        history.add(std::time::Duration::from_secs(9), page);
        let mut terminal = Terminal::new(TestBackend::new(100, 30)).unwrap();
        terminal.draw(|frame| draw(frame, &history, &[])).unwrap();
        assert!(terminal.backend().to_string().contains("stopped"));
    }

    #[test]
    fn what_is_waited_for_is_said_whole_above_the_output() {
        let mut terminal = Terminal::new(TestBackend::new(30, 6)).unwrap();
        let text = "process 7 has not used the collector yet; waiting for that";
        let output = ["first".to_owned(), "last".to_owned()];
        terminal.draw(|frame| draw_waiting(frame, text, &output)).unwrap();
        let drawn = terminal.backend().to_string();
        for wanted in
            ["process 7 has not used the", "collector yet; waiting for", "that ", "output", "last"]
        {
            assert!(drawn.contains(wanted), "{wanted}\n{drawn}");
        }
    }

    #[test]
    fn small_terminals_show_what_has_room() {
        let text = drawn(60, 7, &["output that has no room"]);
        assert!(text.contains("heap") && !text.contains("heap, to"), "{text}");
        for (width, height) in [(1, 1), (3, 2), (10, 40), (300, 3)] {
            drawn(width, height, &["x"]);
        }
    }
}
