//! A grid of text cells, drawn for a terminal or as Markdown.
//!
//! Pure. Invariant: every row has as many cells as there are columns. Called by `table`.

/// A column: its heading, and whether it holds numbers, which are aligned to the right.
pub type Column = (&'static str, bool);

/// Rows of `COLUMNS` cells under their headings.
pub struct Grid<const COLUMNS: usize> {
    /// The headings.
    pub columns: [Column; COLUMNS],
    /// The cells.
    pub rows: Vec<[String; COLUMNS]>,
}

impl<const COLUMNS: usize> Grid<COLUMNS> {
    /// Padded with blanks, two between columns.
    pub fn plain(&self) -> String {
        let headings = self.columns.map(|(heading, _)| heading.to_owned());
        let all = || std::iter::once(&headings).chain(&self.rows);
        let mut text = String::new();
        let widths: [usize; COLUMNS] = std::array::from_fn(|column| {
            all().map(|row| row[column].chars().count()).max().unwrap_or(0)
        });
        for row in all() {
            let cells: [String; COLUMNS] = std::array::from_fn(|column| {
                let gap = " ".repeat(widths[column] - row[column].chars().count());
                if self.columns[column].1 { gap + &row[column] } else { row[column].clone() + &gap }
            });
            text.push_str(cells.join("  ").trim_end());
            text.push('\n');
        }
        text
    }

    /// A Markdown table.
    pub fn markdown(&self) -> String {
        let mut text = format!("| {} |\n|", self.columns.map(|(heading, _)| heading).join(" | "));
        for (_, number) in self.columns {
            text.push_str(if number { " ---: |" } else { " --- |" });
        }
        text.push('\n');
        for row in &self.rows {
            let cells = row.clone().map(|cell| cell.replace('|', "\\|").replace('\n', " "));
            text.push_str(&format!("| {} |\n", cells.join(" | ")));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grid() -> Grid<2> {
        let row = |name: &str, number: &str| [name.to_owned(), number.to_owned()];
        Grid {
            columns: [("name", false), ("n", true)],
            rows: vec![row("a|b", "10"), row("µs–", "5")],
        }
    }

    #[test]
    fn plain_counts_characters_not_bytes() {
        assert_eq!(grid().plain(), "name   n\na|b   10\nµs–    5\n");
    }

    #[test]
    fn markdown_escapes_bars() {
        assert_eq!(
            grid().markdown(),
            "| name | n |\n| --- | ---: |\n| a\\|b | 10 |\n| µs– | 5 |\n"
        );
    }
}
