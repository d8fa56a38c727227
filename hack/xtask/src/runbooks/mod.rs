//! Check of the pages of reasons in `docs/runbooks`: every reason of a condition that a person can meet has one.

mod page;
mod positions;
mod sources;
mod tokens;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Context, bail};

use crate::run;
use page::{FOLDER, Page};
use sources::Words;

/// File with the words of the sources that are no reasons, the formats of reasons, and reasons that are yet to come.
const OTHER_WORDS: &str = "hack/xtask/src/runbooks/other_words.txt";

/// Source with the pages that the command line contains.
const EMBEDDED: &str = "apiserver/cli/src/commands/explain/pages.rs";

/// Heading in [`OTHER_WORDS`] of reasons that no source has: those of other programs, and of controllers that are yet
/// to come.
const WITHOUT_SOURCE: &str = "# Reasons without a literal in the sources";

/// Words of [`OTHER_WORDS`].
#[derive(Debug, Default)]
struct OtherWords {
    /// Words that are no reasons.
    words: BTreeSet<String>,
    /// Formats, and the reasons that they result in.
    formats: BTreeMap<String, Vec<String>>,
    /// Reasons that no source has.
    without_source: BTreeSet<String>,
}

impl OtherWords {
    fn parse(text: &str) -> Self {
        let (mut found, mut is_reasons) = (Self::default(), false);
        for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
            if line.starts_with('#') {
                is_reasons = line.starts_with(WITHOUT_SOURCE);
            } else if let Some((format, reasons)) = line.split_once(" = ") {
                let reasons = reasons.split_whitespace().filter(|reason| *reason != "none");
                found.formats.insert(format.to_owned(), reasons.map(str::to_owned).collect());
            } else if is_reasons {
                found.without_source.insert(line.to_owned());
            } else {
                found.words.insert(line.to_owned());
            }
        }
        found
    }

    fn read(root: &Path) -> anyhow::Result<Self> {
        let text = std::fs::read_to_string(root.join(OTHER_WORDS)).with_context(|| OTHER_WORDS.to_owned())?;
        Ok(Self::parse(&text))
    }
}

/// Checks that each reason has a page of the right form, and that the generated files are up to date.
///
/// # Errors
/// Names each word without a page, with what to do about it.
pub(crate) fn check() -> anyhow::Result<()> {
    let root = run::root()?;
    let (pages, mut errors) = page::read(&root)?;
    errors.extend(compare(&sources::read(&root)?, &OtherWords::read(&root)?, &pages));
    for (path, text) in generated(&pages) {
        if std::fs::read_to_string(root.join(&path)).unwrap_or_default() != text {
            errors.push(format!("{path} is out of date: run `cargo xtask generate`"));
        }
    }
    if errors.is_empty() { Ok(()) } else { bail!("{}", errors.join("\n")) }
}

/// Writes the index, and the list of the pages that the command line contains.
pub(crate) fn generate() -> anyhow::Result<()> {
    let root = run::root()?;
    let (pages, _) = page::read(&root)?;
    for (path, text) in generated(&pages) {
        std::fs::write(root.join(&path), text).with_context(|| format!("{path}: cannot be written"))?;
    }
    Ok(())
}

fn generated(pages: &BTreeMap<String, Page>) -> [(String, String); 2] {
    [(format!("{FOLDER}/README.md"), page::index(pages)), (EMBEDDED.to_owned(), page::embedded(pages))]
}

/// Compares the words of the sources with the pages. Returns the errors.
fn compare(words: &Words, other: &OtherWords, pages: &BTreeMap<String, Page>) -> Vec<String> {
    let mut errors = Vec::new();
    let mut reasons: BTreeSet<&str> = other.without_source.iter().map(String::as_str).collect();
    let mut missing = |reason: &str, at: &str| {
        errors.push(format!(
            "{at}: {reason:?} is a reason of a condition without a page. Write {FOLDER}/{reason}.md in the form of \
             {FOLDER}/NoCapacity.md, and run `cargo xtask generate`"
        ));
    };
    for (word, occurrence) in words {
        if let Some(of_format) = other.formats.get(word) {
            reasons.extend(of_format.iter().map(String::as_str));
            of_format.iter().filter(|it| !pages.contains_key(*it)).for_each(|it| missing(it, &occurrence.at));
        } else if pages.contains_key(word) {
            reasons.insert(word);
        } else if occurrence.is_certain {
            missing(word, &occurrence.at);
        }
    }
    for reason in other.without_source.iter().filter(|reason| !pages.contains_key(*reason)) {
        missing(reason, OTHER_WORDS);
    }
    let open = words.iter().filter(|(word, occurrence)| {
        let is_known = other.words.contains(*word) || other.formats.contains_key(*word);
        !occurrence.is_certain && !is_known && !pages.contains_key(*word)
    });
    errors.extend(open.map(|(word, occurrence)| {
        format!(
            "{}: {word:?} may be a reason of a condition, and has no page. If it is one, write {FOLDER}/{word}.md in the form \
             of {FOLDER}/NoCapacity.md, and run `cargo xtask generate`. If it is none, add the line {word} to {OTHER_WORDS}; \
             if it is a format, add the line `{word} = ` with its reasons, or `none`",
            occurrence.at
        )
    }));
    let unused = pages.keys().filter(|page| !reasons.contains(page.as_str()));
    errors.extend(unused.map(|page| {
        format!(
            "{FOLDER}/{page}.md: no source has this reason. Delete the page, or add the line {page} to {OTHER_WORDS} below \
             {WITHOUT_SOURCE:?}"
        )
    }));
    errors
}

#[cfg(test)]
mod tests {
    use super::sources::Occurrence;
    use super::*;

    /// The test of the repository itself: a reason without a page fails here.
    #[test]
    fn every_reason_of_a_condition_has_a_page() {
        if let Err(errors) = check() {
            panic!("{errors:#}");
        }
    }

    fn errors(words: &[(&str, bool)], other: &str, pages: &[&str]) -> String {
        let occurrence = |is_certain: bool| Occurrence { at: "f.rs:1".to_owned(), is_certain };
        let words = words.iter().map(|(word, certain)| ((*word).to_owned(), occurrence(*certain))).collect();
        let page = Page { meaning: String::new(), shown_by: String::new(), nature: String::new() };
        let pages = pages.iter().map(|reason| ((*reason).to_owned(), page.clone())).collect();
        compare(&words, &OtherWords::parse(other), &pages).join("\n")
    }

    #[test]
    fn a_word_has_a_page_or_is_listed() {
        assert_eq!(errors(&[("Gone", false), ("Machine", false)], "# Kinds\nMachine\n", &["Gone"]), "");
        let error = errors(&[("Gone", false)], "", &[]);
        assert!(error.contains("f.rs:1: \"Gone\" may be a reason") && error.contains("Gone.md"), "{error}");
    }

    #[test]
    fn the_list_does_not_hide_a_word_in_the_place_of_a_reason() {
        let error = errors(&[("Gone", true)], "Gone", &[]);
        assert!(error.contains("\"Gone\" is a reason of a condition without a page"), "{error}");
    }

    #[test]
    fn the_results_of_a_format_need_pages() {
        let words = [("Not{kind}", true)];
        assert_eq!(errors(&words, "Not{kind} = NotReady", &["NotReady"]), "");
        assert!(errors(&words, "Not{kind} = NotReady", &[]).contains("docs/runbooks/NotReady.md"));
        assert_eq!(errors(&words, "Not{kind} = none", &[]), "");
    }

    #[test]
    fn a_page_without_a_reason_is_refused_unless_it_is_listed() {
        assert!(errors(&[], "", &["Gone"]).contains("no source has this reason"));
        let list = format!("{WITHOUT_SOURCE}\nGone\n# Kinds\nMachine");
        assert_eq!(errors(&[], &list, &["Gone"]), "");
        assert!(errors(&[], &list, &[]).contains("docs/runbooks/Gone.md"));
    }
}
