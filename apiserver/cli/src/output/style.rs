//! Signs and colours.

use crate::tree::Severity;

/// Form of the text for a terminal or a file.
#[derive(Debug, Clone, Copy, Default)]
pub struct Style {
    /// Writes colours and bold text.
    pub color: bool,
    /// Writes ASCII characters instead of signs and lines.
    pub ascii: bool,
    /// Number of columns of the terminal. Unset: lines have any length.
    pub width: Option<usize>,
}

/// Part of a line that has a colour of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Paint {
    Plain,
    Structure,
    Name,
    Severity(Severity),
}

impl Style {
    /// Returns the sign of a severity. It has one or two columns in ASCII, and one otherwise.
    pub(super) fn sign(self, severity: Severity) -> &'static str {
        match (severity, self.ascii) {
            (Severity::Done, false) => "✓",
            (Severity::Failed, false) => "✗",
            (Severity::Running, false) => "●",
            (Severity::Waiting, false) => "○",
            (Severity::Done, true) => "ok",
            (Severity::Failed, true) => "x",
            (Severity::Running, true) => "*",
            (Severity::Waiting, true) => ".",
            (Severity::Warning, _) => "!",
        }
    }

    /// Returns the text in ASCII if the style demands it.
    pub(super) fn text(self, text: &str) -> String {
        if !self.ascii {
            return text.to_owned();
        }
        let replaced = text.replace('…', "...").replace("├─", "|-").replace("└─", "`-").replace('│', "|");
        replaced.replace('–', "-")
    }

    /// Returns the text in a colour.
    pub(super) fn paint(self, text: &str, paint: Paint) -> String {
        let code = match paint {
            Paint::Plain => None,
            Paint::Structure => Some("90"),
            Paint::Name => Some("1"),
            Paint::Severity(Severity::Done) => Some("32"),
            Paint::Severity(Severity::Failed) => Some("31"),
            Paint::Severity(Severity::Waiting | Severity::Running | Severity::Warning) => Some("33"),
        };
        match code {
            Some(code) if self.color && !text.is_empty() => format!("\u{1b}[{code}m{text}\u{1b}[0m"),
            _ => text.to_owned(),
        }
    }
}

/// Returns the text without control characters. Messages quote other systems, and could hold escape sequences.
pub(super) fn neutral(text: &str) -> String {
    text.chars().map(|it| if it.is_control() { '\u{fffd}' } else { it }).collect()
}
