//! Command `capstan explain`: the page of a reason, as it was when this program was built.

mod near;
mod page;
mod pages;

use clap::Args;

use crate::error::{ExitCode, Failure};
use crate::output::{self, ColorChoice, Style};
use pages::PAGES;

/// Widest text. Longer lines are hard to read, however wide the terminal is. Unit: columns.
const WIDEST: usize = 100;

/// Narrowest text that is wrapped. On a smaller terminal, the terminal itself wraps. Unit: columns.
const NARROWEST: usize = 40;

/// Arguments of `capstan explain`.
#[derive(Debug, Args)]
pub struct ExplainArguments {
    /// Reason of a condition, in any case, e.g. QuotaExceeded; without it, all reasons are listed
    pub reason: Option<String>,
}

/// Runs the command.
///
/// # Errors
/// There is no such reason. The error names similar ones.
pub fn explain(arguments: &ExplainArguments) -> Result<(), Failure> {
    let style = Style::detect(&std::io::stdout(), ColorChoice::Never, false);
    let width = style.width.unwrap_or(WIDEST).clamp(NARROWEST, WIDEST);
    let text = match &arguments.reason {
        Some(reason) => page::plain(find(reason)?, width),
        None => list(width),
    };
    output::print(text.as_bytes())
}

/// Returns two parts of the page of a reason: the steps that end the state, and the effect of waiting. `None` without a
/// page, and for a state that needs no step.
#[must_use]
pub fn advice(reason: &str) -> Option<[String; 2]> {
    let (_, page) = PAGES.iter().find(|(known, _)| *known == reason)?;
    let parts = ["Do", "By itself"].map(|title| page::section(page, title));
    parts.iter().any(|part| !part.is_empty()).then_some(parts)
}

/// Returns the page of a reason.
fn find(text: &str) -> Result<&'static str, Failure> {
    // A summary in the form of v1beta1 has the object behind the reason: `Deleted @ Machine/m1`.
    let reason = text.split_whitespace().next().unwrap_or_default();
    let found = PAGES.iter().find(|(known, _)| known.eq_ignore_ascii_case(reason));
    found.map(|(_, page)| *page).ok_or_else(|| {
        let names: Vec<&str> = PAGES.iter().map(|(name, _)| *name).collect();
        let near = near::matches(reason, &names);
        let failure = Failure::new(ExitCode::Failed, format!("there is no page for the reason {reason:?}"));
        let failure = if near.is_empty() { failure } else { failure.detail("similar", near.join(", ")) };
        failure.next("capstan explain")
    })
}

/// Returns all reasons with their meanings.
fn list(width: usize) -> String {
    let longest = PAGES.iter().map(|(reason, _)| reason.len()).max().unwrap_or_default();
    let lines = PAGES.iter().map(|(reason, text)| {
        // Names are short enough to leave room for the meaning; on a narrow terminal, it is on lines of its own.
        let start = format!("{reason:<longest$}  ");
        let indent = if start.len().saturating_mul(2) > width { 4 } else { start.len() };
        page::wrapped(&format!("{start}{}", page::meaning(text)), indent, width)
    });
    lines.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_found_in_any_case_and_with_the_object_behind_it() {
        for text in ["QuotaExceeded", "quotaexceeded", "QUOTAEXCEEDED @ Machine/m1"] {
            assert!(find(text).unwrap().starts_with("# QuotaExceeded\n"), "{text}");
        }
    }

    #[test]
    fn the_advice_of_a_reason_has_steps_and_the_effect_of_waiting() {
        let [unblock, waiting] = advice("QuotaExceeded").unwrap();
        assert!(unblock.starts_with("- Raise the quota that the message names"), "{unblock}");
        assert!(waiting.starts_with("Nothing was created"), "{waiting}");
        assert_eq!(advice("NoSuchReason"), None);
        assert_eq!(advice("NotDeleting"), None, "nothing is to be done");
        for advice in PAGES.iter().filter_map(|(reason, _)| advice(reason)) {
            assert!(advice.iter().all(|part| !part.is_empty()), "{advice:?}");
        }
    }

    #[test]
    fn an_unknown_reason_fails_and_names_similar_ones() {
        let failure = find("QuotaExceded").unwrap_err();
        assert_eq!(failure.code(), ExitCode::Failed);
        assert_eq!(
            failure.to_string(),
            "error: there is no page for the reason \"QuotaExceded\"\n  similar   QuotaExceeded\nnext: capstan explain"
        );
        let failure = find("Xyzzyxyzzyxyzzy").unwrap_err();
        assert!(!failure.to_string().contains("similar"), "{failure}");
    }

    #[test]
    fn the_list_has_a_meaning_for_each_reason() {
        let list = list(100);
        assert!(PAGES.len() > 100 && list.lines().all(|line| line.len() <= 100));
        for (reason, page) in PAGES {
            let meaning = page::meaning(page);
            assert!(list.contains(&format!("{reason} ")) && meaning.ends_with('.'), "{reason}: {meaning}");
        }
    }

    #[test]
    fn every_page_is_plain_text_that_fits_the_terminal() {
        for (reason, page) in PAGES {
            let text = page::plain(page, 80);
            assert!(text.starts_with(&format!("{reason}\n\n")), "{reason}");
            assert!(
                !text.contains("**") && !text.contains("```") && !text.contains("\n#"),
                "{reason}: {text}"
            );
            let is_prose = |line: &&str| !line.starts_with("    ");
            let long =
                text.lines().filter(is_prose).find(|line| line.chars().count() > 80 && line.contains(' '));
            let breakable = long.filter(|line| line.trim_start().split(' ').all(|word| word.len() < 70));
            assert_eq!(breakable, None, "{reason}");
        }
    }
}
