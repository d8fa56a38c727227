//! Table of what each identity may do: `expected.txt`, one line for each target.
//!
//! The test writes the table from the answers of the server, if `CAPSTAN_ACCEPT` is set. A new kind, subresource or path
//! appears in it by itself, and fails the test until the new line is reviewed and committed.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

const HEADER: &str = "\
# Access matrix: targets, and what each column of identities may do there. A column that is not in a line may do nothing.
# Of resources: g get, l list, w watch, c create, u update, p patch, a apply, d delete, D deletecollection,
# n get or list in a namespace of others, N list in all namespaces. Of paths: g GET, c POST, u PUT, d DELETE.
# A verb is in a cell if the request was admitted. Most objects do not exist, so most of these answers are 404.
# CAPSTAN_ACCEPT=1 writes it from the answers of the server. Review each line: rules.rs checks the general rules only.
";

/// Letters of the verbs.
const LETTERS: [(&str, char); 12] = [
    ("get", 'g'),
    ("list", 'l'),
    ("watch", 'w'),
    ("create", 'c'),
    ("post", 'c'),
    ("update", 'u'),
    ("put", 'u'),
    ("patch", 'p'),
    ("apply", 'a'),
    ("delete", 'd'),
    ("deletecollection", 'D'),
    ("elsewhere", 'n'),
];

/// Letter of a list in all namespaces.
const EVERYWHERE: char = 'N';

/// Verbs that are served, by target. The sets are those of one identity.
pub(crate) type Rights = BTreeMap<String, BTreeSet<&'static str>>;

fn file() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/access/expected.txt"))
}

fn letters(verbs: &BTreeSet<&str>) -> String {
    let known = LETTERS.iter().filter(|(verb, _)| verbs.contains(verb)).map(|(_, letter)| *letter);
    known.chain(verbs.contains("everywhere").then_some(EVERYWHERE)).collect()
}

/// Returns the lines of the table. `columns` has the rights of each column, in its order.
fn lines(columns: &[(String, Rights)]) -> Vec<String> {
    let targets: BTreeSet<&String> = columns.iter().flat_map(|(_, rights)| rights.keys()).collect();
    let cell = |target: &String, (column, rights): &(String, Rights)| {
        Some(format!(" {column}:{}", letters(rights.get(target)?)))
    };
    let line = |target: &String| {
        let cells: String = columns.iter().filter_map(|column| cell(target, column)).collect();
        format!("{target}{cells}")
    };
    targets.into_iter().map(line).collect()
}

/// Compares the rights with the table.
pub(crate) fn compare(columns: &[(String, Rights)]) {
    let found = lines(columns);
    if std::env::var_os("CAPSTAN_ACCEPT").is_some() {
        std::fs::write(file(), format!("{HEADER}{}\n", found.join("\n"))).unwrap();
        return;
    }
    let text = std::fs::read_to_string(file()).unwrap_or_default();
    let listed: BTreeSet<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
    let found: BTreeSet<&str> = found.iter().map(String::as_str).collect();
    let new: Vec<&&str> = found.difference(&listed).collect();
    let gone: Vec<&&str> = listed.difference(&found).collect();
    assert!(
        new.is_empty() && gone.is_empty(),
        "the answers differ from tests/access/expected.txt. Answers: {new:#?}\nLines: {gone:#?}\n\
         If this is intended, set CAPSTAN_ACCEPT=1, and review the change of the file."
    );
}
