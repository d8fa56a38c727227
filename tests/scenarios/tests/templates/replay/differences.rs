//! Differences between upstream's facts and ours, and the list of those that are known.

use std::collections::BTreeSet;

/// Known differences: a step or `*`, a sign, and a pattern in which `*` stands for any text; after ` # ` the reason.
/// `-` marks a fact of upstream alone, `+` a fact of ours alone.
const KNOWN: &str = include_str!("differences.txt");

struct Known {
    line: &'static str,
    step: &'static str,
    pattern: &'static str,
    is_used: bool,
}

impl Known {
    fn covers(&self, step: &str, difference: &str) -> bool {
        ["*", step].contains(&self.step) && matches(self.pattern, difference)
    }
}

/// Returns the facts of one side alone, each with its sign.
fn differences(theirs: &BTreeSet<String>, ours: &BTreeSet<String>) -> Vec<String> {
    let missing = theirs.difference(ours).map(|fact| format!("- {fact}"));
    let more = ours.difference(theirs).map(|fact| format!("+ {fact}"));
    missing.chain(more).collect()
}

/// Comparison of all steps.
pub(crate) struct Comparison {
    known: Vec<Known>,
    unknown: Vec<String>,
}

impl Comparison {
    pub(crate) fn new() -> Self {
        let lines = KNOWN.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
        let known = lines.map(|line| {
            let (rule, reason) = line.split_once(" # ").unwrap_or_else(|| panic!("no reason: {line}"));
            let (step, pattern) = rule.split_once(' ').unwrap_or_else(|| panic!("no step: {line}"));
            assert!(!reason.trim().is_empty(), "no reason: {line}");
            Known { line, step, pattern: pattern.trim(), is_used: false }
        });
        Self { known: known.collect(), unknown: Vec::new() }
    }

    /// Returns true if all differences of a step are known, and all known ones of this step are there.
    pub(crate) fn fits(&self, step: &str, theirs: &BTreeSet<String>, ours: &BTreeSet<String>) -> bool {
        let found = differences(theirs, ours);
        let is_known = |difference: &String| self.known.iter().any(|known| known.covers(step, difference));
        let mut expected = self.known.iter().filter(|known| known.step == step);
        found.iter().all(is_known) && expected.all(|known| found.iter().any(|it| known.covers(step, it)))
    }

    /// Compares the facts of one step.
    pub(crate) fn add(&mut self, step: &str, theirs: &BTreeSet<String>, ours: &BTreeSet<String>) {
        for difference in differences(theirs, ours) {
            let mut is_known = false;
            for known in self.known.iter_mut().filter(|known| known.covers(step, &difference)) {
                known.is_used = true;
                is_known = true;
            }
            if !is_known {
                self.unknown.push(format!("{step} {difference}"));
            }
        }
    }

    /// Returns unknown differences, and lines of the list that match none.
    pub(crate) fn finish(mut self) -> Vec<String> {
        let unused = self.known.iter().filter(|known| !known.is_used);
        self.unknown.extend(unused.map(|known| format!("no such difference any more: {}", known.line)));
        if let Some(file) = std::env::var_os("CAPSTAN_WRITE_DIFFERENCES") {
            std::fs::write(file, self.unknown.join("\n")).unwrap();
        }
        self.unknown
    }
}

/// Returns true if a text matches a pattern, in which `*` stands for any text.
fn matches(pattern: &str, text: &str) -> bool {
    let Some((head, rest)) = pattern.split_once('*') else { return pattern == text };
    let Some(tail) = text.strip_prefix(head) else { return false };
    let starts = tail.char_indices().map(|(at, _)| at).chain([tail.len()]);
    starts.into_iter().any(|at| tail.get(at..).is_some_and(|tail| matches(rest, tail)))
}

#[test]
fn a_star_stands_for_any_text() {
    assert!(matches("a*c", "abc") && matches("a*", "a") && matches("*b*", "abc") && matches("a", "a"));
    assert!(!matches("a*c", "abd") && !matches("a", "ab"));
}
