//! Aligned columns, without colours.

use super::style::neutral;

/// Returns aligned lines. The last column has any length: its cells are reasons, which a reader needs whole.
#[must_use]
pub fn columns<const N: usize>(rows: &[[String; N]]) -> String {
    let rows: Vec<[String; N]> = rows.iter().map(|row| row.each_ref().map(|cell| neutral(cell))).collect();
    let mut widths = [0; N];
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = cell.chars().count().max(*width);
        }
    }
    let line = |row: &[String; N]| {
        let cells = row.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}"));
        let cells: Vec<String> = cells.collect();
        format!("{}\n", cells.join("  ").trim_end())
    };
    rows.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_aligned_and_have_no_control_characters() {
        let rows = [["A", "B"], ["long", "x\u{1b}[31m"], ["é", ""]].map(|row| row.map(str::to_owned));
        assert_eq!(columns(&rows), "A     B\nlong  x\u{fffd}[31m\né\n");
    }
}
