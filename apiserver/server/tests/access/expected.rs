//! Table of the expected answers, written by hand: `expected.txt`.
//!
//! It has two parts. The first gives each resource, subresource and path a class. The second gives each row of rights the
//! verbs of each class. What is not in the second part is refused. What is not in the first part fails the test.

use std::collections::{BTreeMap, BTreeSet};

const TABLE: &str = include_str!("expected.txt");

/// The table.
pub(crate) struct Expected {
    classes: BTreeMap<String, String>,
    rights: BTreeMap<(String, String), BTreeSet<String>>,
}

impl Expected {
    /// Reads the table.
    pub(crate) fn read() -> Self {
        let (mut classes, mut rights) = (BTreeMap::new(), BTreeMap::<_, BTreeSet<String>>::new());
        let lines = TABLE.lines().filter(|line| !line.starts_with('#') && !line.trim().is_empty());
        for line in lines {
            let words: Vec<&str> = line.split_whitespace().collect();
            match words[..] {
                ["class", class, ref targets @ ..] => {
                    for target in targets {
                        let former = classes.insert((*target).to_owned(), class.to_owned());
                        assert_eq!(former, None, "{target} is in the table twice");
                    }
                }
                ["rights", row, class, ref verbs @ ..] => {
                    let key = (row.to_owned(), class.to_owned());
                    rights.entry(key).or_default().extend(verbs.iter().map(|verb| (*verb).to_owned()));
                }
                _ => panic!("{line}"),
            }
        }
        Self { classes, rights }
    }

    /// Returns the class of a target. A subresource that no line names, and that no kind has, is of the class `nonsense`.
    pub(crate) fn class(&self, target: &str) -> Option<&str> {
        let last = target.rsplit('/').next().unwrap_or_default();
        match self.classes.get(target) {
            Some(class) => Some(class),
            None if last == "nonsense" => Some("nonsense"),
            None => self.classes.iter().find_map(|(pattern, class)| {
                let is_below = pattern.strip_suffix('*').is_some_and(|start| target.starts_with(start));
                is_below.then_some(class.as_str())
            }),
        }
    }

    /// Returns true if a row of rights allows a verb on a class. Rights of the row `everyone` hold for all.
    pub(crate) fn allows(&self, row: &str, class: &str, verb: &str) -> bool {
        let has = |row: &str, class: &str| {
            let verbs = self.rights.get(&(row.to_owned(), class.to_owned()));
            verbs.is_some_and(|verbs| verbs.contains(verb) || verbs.contains("*"))
        };
        let rows: &[&str] = if row == "anonymous" { &["everyone", row] } else { &["everyone", "authenticated", row] };
        rows.iter().any(|row| has(row, class) || has(row, "*"))
    }

    /// Returns the targets of the first part that are in no matrix.
    pub(crate) fn unused(&self, targets: &BTreeSet<String>) -> Vec<&str> {
        let all = self.classes.keys().filter(|target| !target.ends_with('*') && !targets.contains(*target));
        all.map(String::as_str).collect()
    }
}
