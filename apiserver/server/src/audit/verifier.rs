//! Verification of the lines of a chained log: pure, line by line.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Bound::Excluded;

use apiserver_http::{ChainKey, ChainLink, ChainedLine};
use jiff::Timestamp;

/// Position in a file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Position {
    file: String,
    /// Number of the line in the file, counted from 1.
    line: u64,
}

/// Finding about one line, or about several in a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Finding {
    at: Position,
    text: String,
    /// Number of lines after this one about which the same holds.
    more: u64,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.at.file, self.at.line, self.text)?;
        match self.more {
            0 => Ok(()),
            more => write!(f, "; such lines in a row: {}", more.saturating_add(1)),
        }
    }
}

/// Result of a verification.
#[derive(Debug, Default)]
pub(super) struct Verified {
    /// Number of lines.
    pub(super) lines: u64,
    /// Changed, missing and inserted lines, in the order of the files.
    pub(super) findings: Vec<Finding>,
    /// Facts that are no error, but that a reader should know.
    pub(super) notes: Vec<Finding>,
    /// Number of checkpoints that agree with their line.
    pub(super) agreed: u64,
    /// Time of the newest of them.
    pub(super) newest: Option<Timestamp>,
}

/// Verdict about the link of one line.
enum Verdict {
    /// The line follows the one before it.
    Follows,
    /// The line follows an earlier one, so that those between them were inserted.
    Resumes,
    /// The line is the first one of a chain.
    Begins,
    /// The line before the first one is not known.
    Unchecked,
    /// The line does not follow, for this reason.
    Broken(String),
}

/// Verifier of the lines of one replica.
#[derive(Debug)]
pub(super) struct Verifier<'a> {
    key: &'a ChainKey,
    /// Links and times of the checkpoints, by the numbers of the lines.
    checkpoints: &'a BTreeMap<u64, (ChainLink, Timestamp)>,
    at: Position,
    /// Link of the last line that has one.
    last: Option<ChainLink>,
    /// Link of the last line that follows the one before it.
    good: Option<ChainLink>,
    /// Positions in the list of findings that are about lines after that one.
    suspects: Vec<usize>,
    /// Set if the line before had no link.
    was_plain: bool,
    /// Set if the key proves a line. An equal checkpoint proves only its link, which everyone can copy.
    is_linked: bool,
    /// Position of a line without a line feed.
    incomplete: Option<Position>,
    verified: Verified,
}

impl<'a> Verifier<'a> {
    pub(super) fn new(key: &'a ChainKey, checkpoints: &'a BTreeMap<u64, (ChainLink, Timestamp)>) -> Self {
        Self {
            key,
            checkpoints,
            at: Position::default(),
            last: None,
            good: None,
            suspects: Vec::new(),
            was_plain: false,
            is_linked: false,
            incomplete: None,
            verified: Verified::default(),
        }
    }

    /// Begins another file, which follows the one before it.
    pub(super) fn begin(&mut self, file: &str) {
        self.at = Position { file: file.to_owned(), line: 0 };
        self.was_plain = false;
    }

    /// Verifies the next line. It ends with a line feed, unless it is incomplete.
    pub(super) fn line(&mut self, line: &[u8]) {
        self.at.line = self.at.line.saturating_add(1);
        if let Some(at) = self.incomplete.take() {
            let text = "has no end: it was cut".to_owned();
            self.verified.findings.push(Finding { at, text, more: 0 });
        }
        let Some(line) = line.strip_suffix(b"\n") else {
            self.incomplete = Some(self.at.clone());
            return;
        };
        self.verified.lines = self.verified.lines.saturating_add(1);
        match std::str::from_utf8(line).ok().and_then(ChainedLine::parse) {
            Some(line) => self.chained(&line),
            None => self.plain(),
        }
    }

    /// Ends the verification.
    pub(super) fn end(mut self) -> Verified {
        if let Some(at) = self.incomplete.take() {
            let text = "has no end: the server is writing it, or it was cut".to_owned();
            self.verified.notes.push(Finding { at, text, more: 0 });
        }
        if !self.is_linked {
            self.unlinked();
        } else if let (Some(good), Some((number, (_, time)))) = (self.good, self.checkpoints.last_key_value())
            && *number > good.number
        {
            let text = format!(
                "lines are missing after this one: {}. It has the number {}, and the newest checkpoint, of {time}, is of \
                 the line {number}. If there are files after this one, give them, too",
                number - good.number,
                good.number
            );
            self.find(text);
        }
        self.verified
    }

    /// Reports that nothing is proven: users without the key can write such lines. This finding explains the others.
    fn unlinked(&mut self) {
        let text = "no line is linked with the audit key: the files are those of another key, or forged. For a file of one \
                    line, give the file before it, too";
        let finding = Finding { at: self.at.clone(), text: text.to_owned(), more: 0 };
        self.verified.findings.insert(0, finding);
    }

    fn find(&mut self, text: String) {
        self.verified.findings.push(Finding { at: self.at.clone(), text, more: 0 });
    }

    /// Reports a line that does not follow, once for all such lines in a row. With a wrong key, it is each line.
    fn broken(&mut self, text: String) {
        if let Some(before) = self.verified.findings.last_mut()
            && before.text == text
            && before.at.file == self.at.file
            && before.at.line.saturating_add(before.more).saturating_add(1) == self.at.line
        {
            before.more = before.more.saturating_add(1);
            return;
        }
        self.suspects.push(self.verified.findings.len());
        self.find(text);
    }

    fn note(&mut self, text: &str) {
        let finding = Finding { at: self.at.clone(), text: text.to_owned(), more: 0 };
        self.verified.notes.push(finding);
    }

    /// Reports a line without a link, once for all such lines in a row.
    fn plain(&mut self) {
        if self.was_plain
            && let Some(last) = self.verified.findings.last_mut()
        {
            last.more = last.more.saturating_add(1);
            return;
        }
        self.was_plain = true;
        self.find("has no link: it was inserted or changed, or written without audit.chain".to_owned());
    }

    fn chained(&mut self, line: &ChainedLine<'_>) {
        self.was_plain = false;
        let link = line.link();
        let verdict = self.verdict(line);
        self.is_linked |= matches!(verdict, Verdict::Follows | Verdict::Resumes | Verdict::Begins);
        match verdict {
            Verdict::Broken(text) => {
                self.broken(text);
                self.last = Some(link);
                return;
            }
            Verdict::Follows => {}
            Verdict::Resumes => self.inserted(),
            Verdict::Begins => self.begins(link),
            Verdict::Unchecked => {
                self.note("cannot be checked itself: give the file before this one, too, or its checkpoint");
            }
        }
        self.suspects.clear();
        self.compare(link);
        (self.last, self.good) = (Some(link), Some(link));
    }

    fn verdict(&self, line: &ChainedLine<'_>) -> Verdict {
        let follows = |before: Option<ChainLink>| self.key.follows(before, line);
        let Some(last) = self.last else { return self.first(line) };
        if follows(Some(last)) {
            Verdict::Follows
        } else if self.good.is_some_and(|good| good != last && follows(Some(good))) {
            Verdict::Resumes
        } else if line.link().number > last.number && follows(None) {
            Verdict::Begins
        } else {
            Verdict::Broken(difference(last, line.link()))
        }
    }

    /// Returns the verdict about the first line of all.
    fn first(&self, line: &ChainedLine<'_>) -> Verdict {
        if self.key.follows(None, line) {
            return Verdict::Follows;
        }
        let before = line.link().number.checked_sub(1).and_then(|number| self.checkpoints.get(&number));
        match before {
            None => Verdict::Unchecked,
            Some((before, _)) if self.key.follows(Some(*before), line) => Verdict::Follows,
            Some(_) => Verdict::Broken("was changed: it does not follow the checkpoint before it".to_owned()),
        }
    }

    /// Says of the lines since the last good one that they were inserted.
    fn inserted(&mut self) {
        for index in std::mem::take(&mut self.suspects) {
            if let Some(finding) = self.verified.findings.get_mut(index) {
                finding.text = "was inserted or moved here".to_owned();
            }
        }
    }

    /// Notes a new chain, and looks for lines of the one before it that are missing.
    fn begins(&mut self, link: ChainLink) {
        self.note("a new chain begins: the server had neither the file nor a checkpoint, or wrote to standard output");
        let Some(last) = self.last.filter(|last| last.number < link.number) else { return };
        let missing = self.checkpoints.range((Excluded(last.number), Excluded(link.number))).next_back();
        if let Some((number, (_, time))) = missing {
            let text = format!(
                "lines are missing before this one: at least {}. There is a checkpoint of {time} for the line {number}",
                number - last.number
            );
            self.find(text);
        }
    }

    /// Compares a line with its checkpoint, if it has one.
    fn compare(&mut self, link: ChainLink) {
        let Some((stored, time)) = self.checkpoints.get(&link.number) else { return };
        if *stored == link {
            self.verified.agreed = self.verified.agreed.saturating_add(1);
            self.verified.newest = self.verified.newest.max(Some(*time));
            return;
        }
        let text = format!(
            "differs from its checkpoint of {time}: it or lines before it were lost or replaced after that time"
        );
        self.find(text);
    }
}

/// Returns the reason for which a line does not follow another one.
fn difference(last: ChainLink, link: ChainLink) -> String {
    let (before, number) = (last.number, link.number);
    match number.checked_sub(before) {
        Some(1) => "was changed, or replaced together with the line before it".to_owned(),
        None | Some(0) => format!(
            "is not at its position: it was moved, copied or inserted. It has the number {number}, and the line before it \
             {before}"
        ),
        Some(gap) => format!(
            "lines are missing before this one: {}. It has the number {number}, and the line before it {before}",
            gap - 1
        ),
    }
}

#[cfg(test)]
#[path = "verifier_tests.rs"]
mod tests;
