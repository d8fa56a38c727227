//! Tests of the verification: changed, removed, inserted and moved lines, and lines that are missing at the end.

use super::*;

/// Number of the first line of the log.
const FIRST: u64 = 1_700_000_000_000_000;

fn key() -> ChainKey {
    ChainKey::new(&[3; 32])
}

/// Lines of a log with their links.
struct Log {
    lines: Vec<String>,
    links: Vec<ChainLink>,
}

impl Log {
    /// Creates a chain of lines.
    fn new(count: usize) -> Self {
        Self::after(None, FIRST, count, "get")
    }

    /// Creates lines of a chain, after a line or at its beginning.
    fn after(before: Option<ChainLink>, first: u64, count: usize, verb: &str) -> Self {
        let (mut lines, mut links, mut text) = (Vec::new(), Vec::new(), String::new());
        for number in (first..).take(count) {
            let line = format!("{{\"auditID\":\"{number}\",\"verb\":\"{verb}\"}}\n");
            links.push(key().link(links.last().copied().or(before), number, &line, &mut text));
            lines.push(text.clone());
        }
        Self { lines, links }
    }

    /// Verifies the log with checkpoints of these lines of the original.
    fn verify(&self, checkpoints: &[usize]) -> Verified {
        let at = |index: &usize| (self.links[*index].number, (self.links[*index], Timestamp::UNIX_EPOCH));
        verify(&[("audit.log", self.lines.as_slice())], &checkpoints.iter().map(at).collect())
    }
}

/// Verifies files with these checkpoints.
fn verify(files: &[(&str, &[String])], checkpoints: &BTreeMap<u64, (ChainLink, Timestamp)>) -> Verified {
    let key = key();
    let mut verifier = Verifier::new(&key, checkpoints);
    for (file, lines) in files {
        verifier.begin(file);
        lines.iter().for_each(|line| verifier.line(line.as_bytes()));
    }
    verifier.end()
}

/// Returns the findings as texts.
fn texts(verified: &Verified) -> Vec<String> {
    verified.findings.iter().map(ToString::to_string).collect()
}

#[test]
fn am_12_a_log_as_the_server_wrote_it_has_no_findings() {
    let log = Log::new(6);
    let verified = log.verify(&[2, 5]);
    assert_eq!((texts(&verified), verified.notes.len()), (Vec::new(), 0));
    assert_eq!((verified.lines, verified.agreed), (6, 2));
}

#[test]
fn am_12_a_changed_line_is_found_whatever_is_changed_in_it() {
    for (from, to) in [("get", "put"), ("17", "18"), ("\",\"verb", "\", \"verb"), ("{", "{ ")] {
        let mut log = Log::new(6);
        log.lines[3] = log.lines[3].replacen(from, to, 1);
        let found = texts(&log.verify(&[5]));
        assert!(!found.is_empty() && found[0].starts_with("audit.log:4: "), "{found:?}");
    }
    let mut log = Log::new(6);
    log.lines[3] = log.lines[3].replace("\"get\"", "\"put\"");
    let expected = "audit.log:4: was changed, or replaced together with the line before it";
    assert_eq!(texts(&log.verify(&[5])), [expected]);
}

#[test]
fn am_12_a_line_of_another_key_is_a_changed_line() {
    let mut log = Log::new(4);
    let mut text = String::new();
    let forged = "{\"auditID\":\"0\"}\n";
    ChainKey::new(&[4; 32]).link(Some(log.links[0]), FIRST + 1, forged, &mut text);
    log.lines[1] = text;
    let found = texts(&log.verify(&[]));
    assert!(found[0].starts_with("audit.log:2: was changed"), "{found:?}");
}

#[test]
fn am_12_removed_lines_are_counted_at_the_line_after_them() {
    let mut log = Log::new(6);
    log.lines.drain(2..4);
    let expected = format!(
        "audit.log:3: lines are missing before this one: 2. It has the number {}, and the line before it {}",
        FIRST + 4,
        FIRST + 1
    );
    assert_eq!(texts(&log.verify(&[5])), [expected]);
}

#[test]
fn am_12_an_inserted_line_is_found_with_a_link_and_without() {
    let mut log = Log::new(6);
    log.lines.insert(2, "{\"auditID\":\"0\"}\n".to_owned());
    log.lines.insert(2, "{\"auditID\":\"0\"}\n".to_owned());
    let found = texts(&log.verify(&[5]));
    let expected = "audit.log:3: has no link: it was inserted or changed, or written without audit.chain; such \
                    lines in a row: 2";
    assert_eq!(found, [expected]);
    let mut log = Log::new(6);
    let copy = log.lines[0].clone();
    log.lines.insert(3, copy);
    assert_eq!(texts(&log.verify(&[5])), ["audit.log:4: was inserted or moved here"]);
    let mut log = Log::new(6);
    let forged = log.lines[3].replace("\"get\"", "\"put\"");
    log.lines.insert(3, forged.replacen(&log.links[3].to_string(), &log.links[5].to_string(), 1));
    assert_eq!(texts(&log.verify(&[5])), ["audit.log:4: was inserted or moved here"]);
}

#[test]
fn am_12_swapped_lines_are_found() {
    let mut log = Log::new(6);
    log.lines.swap(2, 3);
    let found = texts(&log.verify(&[5]));
    assert_eq!(found.len(), 2, "{found:?}");
    assert_eq!(found[0], "audit.log:3: was inserted or moved here");
    assert!(found[1].starts_with("audit.log:5: lines are missing before this one: 1."), "{found:?}");
}

#[test]
fn am_12_lines_that_are_missing_at_the_end_are_found_by_the_checkpoint() {
    let mut log = Log::new(6);
    log.lines.truncate(4);
    assert_eq!(texts(&log.verify(&[])), Vec::<String>::new(), "the chain alone does not show it");
    assert_eq!(texts(&log.verify(&[3])), Vec::<String>::new());
    let found = texts(&log.verify(&[2, 5]));
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].starts_with("audit.log:4: lines are missing after this one: 2."), "{found:?}");
    // The server goes on after the line that is the last one now.
    let new = Log::after(Some(log.links[3]), FIRST + 4, 4, "put");
    log.lines.extend(new.lines);
    let found = texts(&log.verify(&[2, 5]));
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].starts_with("audit.log:6: differs from its checkpoint"), "{found:?}");
    // The server goes on after the checkpoint.
    log.lines.truncate(4);
    log.lines.extend(Log::after(Some(log.links[5]), FIRST + 6, 2, "get").lines);
    let found = texts(&log.verify(&[2, 5]));
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].starts_with("audit.log:5: lines are missing before this one: 2."), "{found:?}");
}

#[test]
fn am_12_a_chain_goes_on_over_files_and_a_missing_file_is_found() {
    let log = Log::new(9);
    let (old, rest) = log.lines.split_at(3);
    let (middle, new) = rest.split_at(3);
    let checkpoint = |index: usize| (log.links[index].number, (log.links[index], Timestamp::UNIX_EPOCH));
    let whole = [("a.log", old), ("b.log", middle), ("c.log", new)];
    assert_eq!(texts(&verify(&whole, &BTreeMap::from([checkpoint(8)]))), Vec::<String>::new());
    let found = texts(&verify(&[whole[0], whole[2]], &BTreeMap::new()));
    assert!(
        found.len() == 1 && found[0].starts_with("c.log:1: lines are missing before this one: 3."),
        "{found:?}"
    );
    let without_the_first = [whole[1], whole[2]];
    let verified = verify(&without_the_first, &BTreeMap::new());
    assert_eq!((texts(&verified), verified.notes.len()), (Vec::new(), 1), "its first line is not checked");
    let checkpoints = BTreeMap::from([checkpoint(2)]);
    let verified = verify(&without_the_first, &checkpoints);
    assert_eq!((texts(&verified), verified.notes.len()), (Vec::new(), 0));
    let mut changed = middle.to_vec();
    changed[0] = changed[0].replace("\"get\"", "\"put\"");
    let found = texts(&verify(&[("b.log", changed.as_slice()), whole[2]], &checkpoints));
    assert!(found[0].starts_with("b.log:1: was changed"), "{found:?}");
}

#[test]
fn am_12_a_new_chain_is_noted_and_lines_that_are_missing_before_it_are_found() {
    let (old, new) = (Log::new(4), Log::after(None, FIRST + 1_000, 2, "get"));
    let mut lines = [old.lines.as_slice(), new.lines.as_slice()].concat();
    let checkpoints = BTreeMap::from([(FIRST + 3, (old.links[3], Timestamp::UNIX_EPOCH))]);
    let verified = verify(&[("audit.log", lines.as_slice())], &checkpoints);
    assert_eq!(texts(&verified), Vec::<String>::new());
    assert!(verified.notes[0].to_string().starts_with("audit.log:5: a new chain begins"));
    lines.remove(3);
    let found = texts(&verify(&[("audit.log", lines.as_slice())], &checkpoints));
    assert!(
        found.len() == 1
            && found[0].starts_with("audit.log:4: lines are missing before this one: at least 1."),
        "{found:?}"
    );
}

#[test]
fn am_12_a_line_that_was_cut_is_found_except_at_the_end_of_the_file_that_is_written() {
    let log = Log::new(4);
    let (old, new) = log.lines.split_at(2);
    let cut = |lines: &[String]| {
        let mut lines = lines.to_vec();
        let last = lines.last_mut().unwrap();
        last.truncate(last.len() - 1);
        lines
    };
    let verified = verify(&[("a.log", old), ("b.log", cut(new).as_slice())], &BTreeMap::new());
    assert_eq!((texts(&verified), verified.notes.len()), (Vec::new(), 1));
    let found = texts(&verify(&[("a.log", cut(old).as_slice()), ("b.log", new)], &BTreeMap::new()));
    assert!(found[0].starts_with("a.log:2: has no end: it was cut"), "{found:?}");
    assert!(
        texts(&verify(&[("a.log", Vec::new().as_slice())], &BTreeMap::new()))[0]
            .contains("no line is linked")
    );
}

#[test]
fn am_12_lines_that_the_key_does_not_prove_are_a_finding() {
    let log = Log::new(6);
    let (other, none) = (ChainKey::new(&[9; 32]), BTreeMap::new());
    let mut verifier = Verifier::new(&other, &none);
    verifier.begin("audit.log");
    log.lines.iter().for_each(|line| verifier.line(line.as_bytes()));
    let found = texts(&verifier.end());
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found[0].starts_with("audit.log:6: no line is linked with the audit key"), "{found:?}");
    let expected =
        "audit.log:2: was changed, or replaced together with the line before it; such lines in a row: 5";
    assert_eq!(found[1], expected);
    // A forged line in place of all files: its number is larger than that of each checkpoint.
    let link = ChainLink { number: u64::MAX, code: [0; 32] };
    let forged = [log.lines[0].replacen(&log.links[0].to_string(), &link.to_string(), 1)];
    let checkpoint = |index: usize| (log.links[index].number, (log.links[index], Timestamp::UNIX_EPOCH));
    for checkpoints in [BTreeMap::new(), BTreeMap::from([checkpoint(5)])] {
        let found = texts(&verify(&[("audit.log", forged.as_slice())], &checkpoints));
        assert!(found.len() == 1 && found[0].contains("no line is linked"), "{found:?}");
    }
    // One line of the server: the checkpoint before it proves it, its own one proves only the link.
    for (index, is_proven) in [(2, true), (3, false)] {
        let verified = verify(&[("audit.log", &log.lines[3..4])], &BTreeMap::from([checkpoint(index)]));
        assert_eq!(verified.findings.is_empty(), is_proven, "{index}");
    }
}
