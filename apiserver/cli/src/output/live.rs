//! Display of a tree that changes: redrawn in place on a terminal, one line for each change elsewhere.

use std::io::{self, Write};

use jiff::Timestamp;

use super::conditions::ConditionFilter;
use super::style::Style;
use super::table::{changes, render};
use crate::tree::Tree;

/// Display that follows a tree. The last state stays in the scrollback.
#[derive(Debug)]
pub struct LiveTree {
    style: Style,
    filter: ConditionFilter,
    in_place: bool,
    shown: Vec<String>,
}

impl LiveTree {
    /// Creates an empty display. With `in_place`, the output must be a terminal.
    #[must_use]
    pub fn new(style: Style, filter: ConditionFilter, in_place: bool) -> Self {
        Self { style, filter, in_place, shown: Vec::new() }
    }

    /// Shows a tree, if it differs from what is shown.
    ///
    /// # Errors
    /// The output cannot be written.
    pub fn show(&mut self, out: &mut impl Write, tree: &Tree, now: Timestamp) -> io::Result<()> {
        if !self.in_place {
            return self.show_changes(out, tree, now);
        }
        let lines = render(tree, self.style, &self.filter, now);
        if lines == self.shown {
            return Ok(());
        }
        if !self.shown.is_empty() {
            // Moves up to the first line of the tree, and clears everything below.
            let rows: usize = self.shown.iter().map(|line| rows(line, self.style.width)).sum();
            write!(out, "\u{1b}[{rows}A\u{1b}[J")?;
        }
        for line in &lines {
            writeln!(out, "{line}")?;
        }
        self.shown = lines;
        out.flush()
    }

    fn show_changes(&mut self, out: &mut impl Write, tree: &Tree, now: Timestamp) -> io::Result<()> {
        let lines = changes(tree);
        let time = now.strftime("%H:%M:%S");
        for line in lines.iter().filter(|line| !self.shown.contains(line)) {
            writeln!(out, "{time} {line}")?;
        }
        self.shown = lines;
        out.flush()
    }
}

/// Returns the number of rows that a line takes on a terminal. A line that is too long wraps.
fn rows(line: &str, width: Option<usize>) -> usize {
    let mut columns = 0_usize;
    let mut in_escape = false;
    for character in line.chars() {
        match character {
            '\u{1b}' => in_escape = true,
            'm' if in_escape => in_escape = false,
            _ if in_escape => {}
            _ => columns = columns.saturating_add(1),
        }
    }
    width.filter(|width| *width > 0).map_or(1, |width| columns.div_ceil(width).max(1))
}

#[cfg(test)]
mod tests {
    use apiserver_types::{Cluster, ClusterPhase, ClusterSpec, ClusterStatus};

    use super::*;
    use crate::ClusterObjects;

    fn tree(phase: ClusterPhase) -> Tree {
        let mut cluster = Cluster::new("prod", ClusterSpec::default());
        cluster.metadata.namespace = Some("team".to_owned());
        cluster.status = Some(ClusterStatus { phase: Some(phase), ..ClusterStatus::default() });
        Tree::of(&ClusterObjects { cluster, ..ClusterObjects::default() })
    }

    fn shown(in_place: bool) -> String {
        let mut live = LiveTree::new(Style::default(), ConditionFilter::default(), in_place);
        let mut out = Vec::new();
        let now = Timestamp::from_second(1_000_000_000).unwrap();
        for phase in [ClusterPhase::Pending, ClusterPhase::Pending, ClusterPhase::Provisioning] {
            live.show(&mut out, &tree(phase), now).unwrap();
        }
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_terminal_shows_the_new_state_at_the_position_of_the_old_one() {
        let text = shown(true);
        assert_eq!(text.matches("Pending").count(), 1, "{text:?}");
        let (_, after) = text.split_once("\u{1b}[2A\u{1b}[J").unwrap();
        assert!(after.contains("Provisioning"), "{text:?}");
    }

    #[test]
    fn a_line_that_wraps_takes_several_rows() {
        for (line, width, expected) in [
            ("", Some(4), 1),
            ("abcd", Some(4), 1),
            ("abcde", Some(4), 2),
            ("\u{1b}[1mabcd\u{1b}[0m", Some(4), 1),
            ("abcde", None, 1),
        ] {
            assert_eq!(rows(line, width), expected, "{line:?}");
        }
    }

    #[test]
    fn a_file_gets_one_line_for_each_change_and_no_escape_sequence() {
        assert_eq!(
            shown(false),
            "01:46:40 ○  Cluster team/prod  0/0  Pending\n01:46:40 ○  Cluster team/prod  0/0  Provisioning\n"
        );
    }
}
