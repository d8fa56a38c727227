//! Pages of reasons: their form, and the index of all of them.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Context;

use super::sources::is_word;

/// Folder with the pages.
pub(super) const FOLDER: &str = "docs/runbooks";

/// Name of the index, which is no page.
const INDEX: &str = "README";

/// Start of the line with the kinds and conditions.
const SHOWN: &str = "- **Shown by**: ";

/// Start of the line that says how serious the reason is, and the words that may follow.
const NATURE: &str = "- **Nature**: ";
const NATURES: [&str; 3] = ["error", "wait", "normal"];

/// Sections of a page about something that is not normal.
const SECTIONS: [&str; 3] = ["## Causes", "## Look", "## Do"];

/// Longest page. It is read at night. Unit: lines.
const LONGEST: usize = 60;

/// Page of a reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Page {
    /// First sentence: the meaning of the reason.
    pub(super) meaning: String,
    /// Kinds and conditions with the reason.
    pub(super) shown_by: String,
    /// `error`, `wait` or `normal`.
    pub(super) nature: String,
}

/// Reads the text of a page.
///
/// # Errors
/// Names the part that is missing.
pub(super) fn parse(reason: &str, text: &str) -> Result<Page, String> {
    let mut paragraphs = text.split("\n\n").map(str::trim);
    let title = paragraphs.next().unwrap_or_default();
    if title != format!("# {reason}") {
        return Err(format!("the first line is not `# {reason}`"));
    }
    let meaning = joined(paragraphs.next().unwrap_or_default());
    if !meaning.ends_with('.') || meaning.starts_with(['#', '-']) {
        return Err("the paragraph after the title is not the sentence with the meaning".to_owned());
    }
    let facts = paragraphs.next().unwrap_or_default();
    let fact = |start: &str| {
        let item = format!("\n{facts}")
            .split("\n- ")
            .map(|item| format!("- {item}"))
            .find(|it| it.starts_with(start));
        item.map(|item| joined(item.strip_prefix(start).unwrap_or_default()))
    };
    let shown_by = fact(SHOWN).ok_or_else(|| format!("no line begins with `{SHOWN}`"))?;
    let nature = fact(NATURE).ok_or_else(|| format!("no line begins with `{NATURE}`"))?;
    let Some(word) = NATURES.into_iter().find(|word| nature.starts_with(word)) else {
        return Err(format!("after `{NATURE}` comes one of {}", NATURES.join(", ")));
    };
    let missing = SECTIONS.into_iter().find(|section| !text.contains(&format!("\n{section}\n")));
    if let Some(section) = missing.filter(|_| word != "normal") {
        return Err(format!("the section `{section}` is missing"));
    }
    if text.lines().count() > LONGEST {
        return Err(format!("it has over {LONGEST} lines"));
    }
    Ok(Page { meaning, shown_by, nature: word.to_owned() })
}

fn joined(paragraph: &str) -> String {
    paragraph.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Reads all pages. A page with an error is in the second list, with the error.
pub(super) fn read(root: &Path) -> anyhow::Result<(BTreeMap<String, Page>, Vec<String>)> {
    let (mut pages, mut errors) = (BTreeMap::new(), Vec::new());
    let folder = root.join(FOLDER);
    for entry in std::fs::read_dir(&folder).with_context(|| folder.display().to_string())? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let Some(reason) = name.strip_suffix(".md").filter(|reason| is_word(reason)) else {
            if name != format!("{INDEX}.md") {
                errors.push(format!("{FOLDER}/{name}: only pages `<Reason>.md` are here"));
            }
            continue;
        };
        let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        match parse(reason, &text) {
            Ok(page) => drop(pages.insert(reason.to_owned(), page)),
            Err(error) => {
                errors.push(format!("{FOLDER}/{name}: {error}. {FOLDER}/NoCapacity.md is an example"))
            }
        }
    }
    Ok((pages, errors))
}

/// Returns the index of all pages.
pub(super) fn index(pages: &BTreeMap<String, Page>) -> String {
    let mut text = "# Reasons of conditions\n\n\
         Each reason has a page with its causes, and what to do. `capstan explain REASON` prints the page.\n\
         `cargo xtask generate` writes this index.\n\n\
         - *error*: something is wrong, and a person may have to act.\n\
         - *wait*: something is not finished. Act if it lasts.\n\
         - *normal*: nothing is wrong.\n\n\
         | Reason | Nature | Shown by | Meaning |\n\
         |---|---|---|---|\n"
        .to_owned();
    for (reason, Page { meaning, shown_by, nature }) in pages {
        text.push_str(&format!("| [{reason}]({reason}.md) | {nature} | {shown_by} | {meaning} |\n"));
    }
    text
}

/// Returns the source with the pages that the command line contains.
pub(super) fn embedded(pages: &BTreeMap<String, Page>) -> String {
    let mut text = format!(
        "//! Pages of the reasons. `cargo xtask generate` writes this list.\n\n\
         macro_rules! pages {{\n    \
         ($($reason:ident)*) => {{\n        \
         &[$((stringify!($reason), include_str!(concat!(\"../../../../../{FOLDER}/\", stringify!($reason), \".md\")))),*]\n    \
         }};\n}}\n\n\
         /// Reason and page, in the order of the reasons.\n\
         pub(super) const PAGES: &[(&str, &str)] = pages! {{\n"
    );
    for reason in pages.keys() {
        text.push_str(&format!("    {reason}\n"));
    }
    text.push_str("};\n");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "# Gone\n\nIt is\ngone.\n\n- **Shown by**: Machine\n  `Ready`\n- **Nature**: error; it stays.\n\n\
                        ## Causes\n\n1. A\n\n## Look\n\nB\n\n## Do\n\nC\n";

    #[test]
    fn a_page_has_meaning_conditions_and_nature() {
        let page = parse("Gone", GOOD).unwrap();
        assert_eq!((page.meaning.as_str(), page.nature.as_str()), ("It is gone.", "error"));
        assert_eq!(page.shown_by, "Machine `Ready`");
        let index = index(&[("Gone".to_owned(), page)].into());
        assert!(index.ends_with("| [Gone](Gone.md) | error | Machine `Ready` | It is gone. |\n"), "{index}");
    }

    #[test]
    fn a_page_without_one_of_its_parts_is_refused() {
        let table = [
            (GOOD.replace("# Gone", "# Lost"), "the first line"),
            (GOOD.replace("gone.", "gone"), "the sentence with the meaning"),
            (GOOD.replace("Shown by", "Shown"), "no line begins with `- **Shown by**"),
            (GOOD.replace(": error", ": bad"), "one of error, wait, normal"),
            (GOOD.replace("## Look", "## See"), "the section `## Look`"),
            (format!("{GOOD}{}", "x\n".repeat(60)), "over 60 lines"),
        ];
        for (text, expected) in table {
            let error = parse("Gone", &text).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
        let normal = GOOD.replace(": error", ": normal").replace("## Look", "## See");
        assert!(parse("Gone", &normal).is_ok(), "what is normal needs no remedy");
    }
}
