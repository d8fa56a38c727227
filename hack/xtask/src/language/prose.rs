//! Prose in files: the comments and doc comments of code, and the text of pages.

use super::rules::{FIRST_WORDS, WORDS};

/// Longest sentence of a page, in words. Longer ones are read twice.
const LONGEST_SENTENCE: usize = 30;

/// Location that breaks a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Finding {
    /// The line, counted from 1.
    pub(super) line: usize,
    /// The rule that it breaks, for people.
    pub(super) problem: String,
}

/// Findings in the comments of a source file.
pub(super) fn of_code(text: &str) -> Vec<Finding> {
    let mut found = Vec::new();
    let mut in_doc = false;
    for (index, line) in text.lines().enumerate() {
        let trimmed = line.trim_start();
        let doc = trimmed.strip_prefix("///").or_else(|| trimmed.strip_prefix("//!"));
        let Some(comment) = doc.or_else(|| trimmed.strip_prefix("//")) else {
            in_doc = false;
            continue;
        };
        if let (Some(doc), false) = (doc, in_doc) {
            found.extend(bad_first_word(index, doc));
        }
        in_doc = doc.is_some();
        found.extend(banned_words(index, comment));
    }
    found
}

/// Findings in a page of Markdown, without its code.
pub(super) fn of_page(text: &str) -> Vec<Finding> {
    let mut found = Vec::new();
    let mut sentence = Sentence::default();
    let mut in_code = false;
    for (index, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            in_code = !in_code;
            sentence = Sentence::default();
            continue;
        }
        if in_code {
            continue;
        }
        let prose = without_code(line);
        found.extend(banned_words(index, &prose));
        found.extend(sentence.add(index, &prose));
    }
    found.extend(sentence.end());
    found
}

fn bad_first_word(index: usize, doc: &str) -> Option<Finding> {
    let first = doc.split_whitespace().next()?;
    FIRST_WORDS.contains(&first).then(|| Finding {
        line: index + 1,
        problem: format!("a doc comment says what the item is, and does not begin with {first:?}"),
    })
}

fn banned_words(index: usize, prose: &str) -> Vec<Finding> {
    let lower = prose.to_lowercase();
    let is_letter = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == '`');
    let mut found = Vec::new();
    for (banned, instead, reason) in WORDS {
        let occurs = lower.match_indices(banned).any(|(at, _)| {
            let before = lower.get(..at).and_then(|text| text.chars().next_back());
            let after = lower.get(at + banned.len()..).and_then(|text| text.chars().next());
            !is_letter(before) && !is_letter(after)
        });
        if occurs {
            let problem = format!("{banned:?}: better {instead} ({reason})");
            found.push(Finding { line: index + 1, problem });
        }
    }
    found
}

/// A line without what stands between backticks.
fn without_code(line: &str) -> String {
    line.split('`').enumerate().map(|(index, part)| if index % 2 == 0 { part } else { "code" }).collect()
}

/// The sentence that is being read, over the lines of a paragraph.
#[derive(Default)]
struct Sentence {
    begins: usize,
    words: usize,
}

impl Sentence {
    fn add(&mut self, index: usize, line: &str) -> Vec<Finding> {
        let mut found = Vec::new();
        let text = line.trim();
        // A blank line, a heading, a list item and a row of a table each end what was before them.
        let is_row = text.starts_with('|');
        if text.is_empty() || is_row || text.starts_with(['#', '-', '*', '>']) {
            found.extend(self.end());
        }
        for cell in text.split('|') {
            for word in cell.split_whitespace() {
                if self.words == 0 {
                    self.begins = index + 1;
                }
                self.words += usize::from(word.chars().any(char::is_alphanumeric));
                if word.trim_end_matches(['*', ')', '"', '_']).ends_with(['.', '!', '?', ':', ';']) {
                    found.extend(self.end());
                }
            }
            if is_row {
                found.extend(self.end());
            }
        }
        found
    }

    fn end(&mut self) -> Option<Finding> {
        let words = std::mem::take(&mut self.words);
        (words > LONGEST_SENTENCE).then(|| Finding {
            line: self.begins,
            problem: format!("a sentence of {words} words; the limit is {LONGEST_SENTENCE}"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(found: &[Finding]) -> Vec<usize> {
        found.iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn only_the_first_line_of_a_doc_comment_is_checked_for_its_first_word() {
        let code = "/// What a Cluster is.\n///\n/// What follows is fine.\nstruct A;\n/// A Machine.\n// What is it?\n";
        assert_eq!(lines(&of_code(code)), [1]);
    }

    #[test]
    fn banned_words_are_found_in_comments_and_not_in_code() {
        let code = "let fault = 1;\n// Whoever asks for default faultlines.\n/// `fault` is a name.\n";
        assert_eq!(lines(&of_code(code)), [2, 2]);
    }

    #[test]
    fn a_long_sentence_is_found_where_it_begins() {
        let long = "word ".repeat(31);
        let page =
            format!("Short. {long}.\n\n```\n{long}\n```\n| {} | {} |\n", "a ".repeat(20), "b ".repeat(20));
        assert_eq!(lines(&of_page(&page)), [1]);
        assert!(of_page(&"word ".repeat(30)).is_empty());
    }
}
