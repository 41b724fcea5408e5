//! Draws a history on a terminal of any size. Pure: what is drawn depends on the history and the
//! frame only.

use super::figures::{bytes, duration, rows};
use super::history::History;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::{Block, Gauge, Paragraph, Row, Sparkline, Table};

/// Height of a chart with its border.
const CHART: u16 = 7;

/// Draws the view: how full the heap is, the figures, allocation and heap over time, and below them
/// the last lines of the program's output, if there are any.
pub fn draw(frame: &mut Frame, history: &History, output: &[String]) {
    let rows_height = rows(history).len() as u16;
    let charts = if frame.area().height >= rows_height + 3 + CHART { CHART } else { 0 };
    let [title, gauge, table, chart, rest] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Length(rows_height + 1),
        Constraint::Length(charts),
        Constraint::Min(0),
    ])
    .areas(frame.area());
    frame.render_widget(
        Line::styled(history.title(), Style::new().add_modifier(Modifier::BOLD)),
        title,
    );
    heap_gauge(frame, history, gauge);
    let rows = rows(history).into_iter().map(|(name, value)| {
        Row::new([Line::styled(name, Style::new().fg(Color::Cyan)), Line::raw(value)])
    });
    frame.render_widget(Table::new(rows, [Constraint::Length(11), Constraint::Min(0)]), table);
    if charts > 0 {
        over_time(frame, history, chart);
    }
    if !output.is_empty() && rest.height > 1 {
        let room = usize::from(rest.height) - 1;
        let last =
            output[output.len().saturating_sub(room)..].iter().map(|line| Line::raw(&**line));
        let block = Block::new().borders(ratatui::widgets::Borders::TOP).title("output");
        frame.render_widget(Paragraph::new(last.collect::<Vec<_>>()).block(block), rest);
    }
}

/// How much of what may be allocated before the next cycle is.
fn heap_gauge(frame: &mut Frame, history: &History, area: Rect) {
    let page = history.now();
    let cycle = page.cycle.unwrap_or_default();
    let until = cycle.live_bytes + cycle.next_bytes;
    let part = if until == 0 { 0.0 } else { page.live.used_bytes as f64 / until as f64 };
    let label = format!("{} of {} until the next cycle", bytes(page.live.used_bytes), bytes(until));
    let gauge = Gauge::default().ratio(part.clamp(0.0, 1.0)).label(label);
    frame.render_widget(gauge.gauge_style(Style::new().fg(Color::Blue)), area);
}

fn over_time(frame: &mut Frame, history: &History, area: Rect) {
    let [left, middle, right] =
        Layout::horizontal([Constraint::Fill(1), Constraint::Fill(1), Constraint::Fill(1)])
            .areas(area);
    let columns = usize::from(area.width);
    let mut chart = |title: String, values: Vec<u64>, color, area: Rect| {
        let room = usize::from(area.width.saturating_sub(2));
        let shown = &values[values.len().saturating_sub(room)..];
        let block = Block::bordered().title(title);
        let line = Sparkline::default().data(shown).style(Style::new().fg(color)).block(block);
        frame.render_widget(line, area);
    };
    let allocation = history.rates(columns, |page| page.live.handed_out_bytes);
    let most = |values: &[u64]| values.iter().copied().max().unwrap_or(0);
    let title = format!("allocation, to {}/s", bytes(most(&allocation)));
    chart(title, allocation, Color::Green, left);
    let used = history.values(columns, |page| page.live.used_bytes);
    chart(format!("heap, to {}", bytes(most(&used))), used, Color::Blue, middle);
    let stopped = history.rates(columns, |page| page.live.pause_total_ns);
    chart(format!("stopped, to {} in 1 s", duration(most(&stopped))), stopped, Color::Red, right);
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
        let history = history(&[0, 1 << 20, 5 << 20]);
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

    #[test]
    fn small_terminals_show_what_has_room() {
        let text = drawn(60, 10, &["output that has no room"]);
        assert!(text.contains("allocation") && !text.contains("heap, to"), "{text}");
        for (width, height) in [(1, 1), (3, 2), (10, 40), (300, 3)] {
            drawn(width, height, &["x"]);
        }
    }
}
