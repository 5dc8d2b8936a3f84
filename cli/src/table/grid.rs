//! Aligned columns. Every text that enters a grid is cleaned of what a terminal would obey.

use comfy_table::{Cell, CellAlignment, Color, ContentArrangement, Table, presets};

use crate::format;
use crate::output::Style;

/// Meaning of a cell, shown as a colour where there are colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tone {
    Plain,
    Good,
    Warn,
    Bad,
}

/// A cell of a row.
#[derive(Debug, Clone)]
pub(super) struct Field {
    text: String,
    pub(super) tone: Tone,
}

impl Field {
    /// The same with a meaning.
    #[must_use]
    pub(super) fn tone(mut self, tone: Tone) -> Self {
        self.tone = tone;
        self
    }

    /// Several lines in one cell.
    pub(super) fn lines(lines: &[String]) -> Self {
        let lines: Vec<String> = lines.iter().map(|line| format::clean(line)).collect();
        Self {
            text: lines.join("\n"),
            tone: Tone::Plain,
        }
    }
}

impl<T: ToString> From<T> for Field {
    fn from(text: T) -> Self {
        let text = text.to_string();
        let text = if text.is_empty() {
            format::NONE.to_owned()
        } else {
            format::clean(&text)
        };
        Self {
            text,
            tone: Tone::Plain,
        }
    }
}

/// Nothing is a dash.
pub(super) fn optional<T: ToString>(value: Option<T>) -> Field {
    value.map_or_else(|| Field::from(format::NONE), Field::from)
}

/// Columns under a header. A header that ends with `>` aligns its column to the right.
#[derive(Debug)]
pub(super) struct Grid {
    table: Table,
    colour: bool,
}

impl Grid {
    pub(super) fn new(style: Style, header: &[&str]) -> Self {
        let mut grid = Self::bare(style);
        grid.table
            .set_header(header.iter().map(|name| name.trim_end_matches('>')));
        for (index, name) in header.iter().enumerate() {
            if let Some(column) = grid.table.column_mut(index)
                && name.ends_with('>')
            {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        grid
    }

    /// Columns without a header.
    pub(super) fn bare(style: Style) -> Self {
        let mut table = Table::new();
        // Never folded at the width of the terminal: an id that is broken over lines can't be copied.
        table
            .load_style(presets::NOTHING)
            .set_content_arrangement(ContentArrangement::Disabled)
            .force_no_tty();
        if style.colour {
            table.enforce_styling().style_text_only();
        }
        Self {
            table,
            colour: style.colour,
        }
    }

    pub(super) fn row<const N: usize>(&mut self, fields: [Field; N]) {
        let cell = |field: Field| match (self.colour, field.tone) {
            (true, Tone::Good) => Cell::new(field.text).fg(Color::Green),
            (true, Tone::Warn) => Cell::new(field.text).fg(Color::Yellow),
            (true, Tone::Bad) => Cell::new(field.text).fg(Color::Red),
            (true, Tone::Plain) | (false, _) => Cell::new(field.text),
        };
        let cells: Vec<Cell> = fields.into_iter().map(cell).collect();
        self.table.add_row(cells);
    }

    /// The text, without a line break at its end.
    pub(super) fn text(mut self) -> String {
        self.table.discover_columns();
        for column in self.table.column_iter_mut() {
            column.set_padding((0, 2));
        }
        let lines: Vec<String> = self
            .table
            .lines()
            .map(|line| line.trim_end().to_owned())
            .collect();
        lines.join("\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_and_lines_have_no_tail() {
        let mut grid = Grid::new(Style::PLAIN, &["NAME", "BEATS>", "NOTE"]);
        grid.row([Field::from("a"), Field::from(1), Field::from("")]);
        grid.row([Field::from("longer"), Field::from(12_345), Field::from("x")]);
        assert_eq!(
            grid.text(),
            "NAME    BEATS  NOTE\na           1  -\nlonger  12345  x"
        );
    }

    #[test]
    fn a_cell_cannot_break_out_of_its_row() {
        let mut grid = Grid::bare(Style::PLAIN);
        grid.row([Field::from("a\nb\u{1b}[2J"), Field::from("c")]);
        assert_eq!(grid.text(), "a\\u{a}b\\u{1b}[2J  c");
    }

    #[test]
    fn colour_is_around_the_text_alone() {
        let mut grid = Grid::bare(Style { colour: true });
        grid.row([Field::from("offline").tone(Tone::Bad), Field::from("x")]);
        let text = grid.text();
        assert!(
            text.starts_with("\u{1b}[") && text.contains("offline\u{1b}["),
            "{text:?}"
        );
        assert!(text.ends_with("  x"), "{text:?}");
    }

    #[test]
    fn without_colour_there_are_no_escapes() {
        let mut grid = Grid::bare(Style::PLAIN);
        grid.row([Field::from("offline").tone(Tone::Bad)]);
        assert_eq!(grid.text(), "offline");
    }
}
