//! Words in the sources that may be reasons of conditions.
//!
//! Nothing here knows all ways in which a reason reaches a condition. So each literal that looks like a reason counts,
//! unless the code around it shows that it is none. The list of other words decides on the rest.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::Context;

use super::positions::{self, Use};
use super::tokens;

/// Files and folders with code that writes conditions. All crates of controllers do; in the server, these parts do.
const SERVER: [&str; 4] = [
    "apiserver/conversion/src/openstack_conditions.rs",
    "apiserver/host/src/host_status",
    "apiserver/registry/src/definitions.rs",
    "apiserver/server/src/certificate_signer.rs",
];

/// Word in the sources.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Occurrence {
    /// Path and line.
    pub(super) at: String,
    /// The position in the code proves that the word is a reason.
    pub(super) is_certain: bool,
}

/// Folders of controllers that write no conditions: checks of a cloud, which run in tests, and the engine of templates. The
/// engine has the names of months, and other words in templates.
const WITHOUT_CONDITIONS: [&str; 2] =
    ["controllers/infrastructure/src/suite", "controllers/topology/src/go_template"];

/// Words of the sources with their first certain or else first occurrence.
pub(super) type Words = BTreeMap<String, Occurrence>;

/// Reads all sources that write conditions.
pub(super) fn read(root: &Path) -> anyhow::Result<Words> {
    let mut words = Words::new();
    for folder in folders(root)? {
        let mut files = Vec::new();
        collect(&folder, &mut files)?;
        let mut tests = BTreeSet::new();
        let mut parsed = Vec::new();
        for file in files {
            let text = std::fs::read_to_string(&file).with_context(|| file.display().to_string())?;
            let (tokens, modules) = tokens::without_tests(&tokens::of(&text));
            tests.extend(modules.iter().map(|module| path_of(&file, module)));
            parsed.push((file, tokens));
        }
        for (file, tokens) in parsed {
            let is_test = |test: &PathBuf| file.starts_with(test) || file == test.with_extension("rs");
            let has_none = WITHOUT_CONDITIONS.iter().any(|folder| file.starts_with(root.join(folder)));
            if has_none || tests.iter().any(is_test) {
                continue;
            }
            let path = file.strip_prefix(root).unwrap_or(&file).display().to_string();
            add(&mut words, &path, &tokens);
        }
    }
    Ok(words)
}

fn folders(root: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut folders: Vec<PathBuf> = SERVER.iter().map(|path| root.join(path)).collect();
    let controllers = root.join("controllers");
    for entry in std::fs::read_dir(&controllers).with_context(|| controllers.display().to_string())? {
        folders.push(entry?.path().join("src"));
    }
    folders.sort();
    Ok(folders)
}

fn collect(path: &Path, files: &mut Vec<PathBuf>) -> anyhow::Result<()> {
    if path.extension().is_some_and(|extension| extension == "rs") {
        files.push(path.to_owned());
    }
    if path.is_dir() {
        for entry in std::fs::read_dir(path).with_context(|| path.display().to_string())? {
            collect(&entry?.path(), files)?;
        }
    }
    Ok(())
}

/// Returns the path of a module that a file declares, by its name or by the name of its file, without the extension.
fn path_of(file: &Path, module: &str) -> PathBuf {
    if let Some(stem) = module.strip_suffix(".rs") {
        return file.with_file_name(stem);
    }
    let folder = match file.file_stem().and_then(|stem| stem.to_str()) {
        Some("mod" | "lib") => file.parent().map(Path::to_owned).unwrap_or_default(),
        _ => file.with_extension(""),
    };
    folder.join(module)
}

fn add(words: &mut Words, path: &str, tokens: &[tokens::Token]) {
    for (at, found) in positions::of(tokens) {
        let Some(token) = tokens.get(at) else { continue };
        let Some(text) = token.text().filter(|text| is_word(text) || is_format(text)) else { continue };
        let is_certain = found == Use::Reason;
        // The form for debugging of any other value is no reason.
        if found == Use::Other || !is_certain && is_value(text) {
            continue;
        }
        let occurrence = Occurrence { at: format!("{path}:{}", token.line), is_certain };
        let known = words.entry(text.to_owned()).or_insert_with(|| occurrence.clone());
        if is_certain && !known.is_certain {
            *known = occurrence;
        }
    }
}

/// Returns true for a word in CamelCase, which every reason is.
pub(super) fn is_word(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_uppercase())
        && text.chars().all(|character| character.is_ascii_alphanumeric())
        && text.chars().any(|character| character.is_ascii_lowercase())
}

/// Returns true for a format whose result may be a word in CamelCase: `Not{kind}`, `{phase:?}`.
fn is_format(text: &str) -> bool {
    let Some(fixed) = fixed_part(text) else { return false };
    is_word(&fixed) || is_value(text)
}

/// Returns true for the format of a single value in the form for debugging, which for an enumeration is its variant.
fn is_value(text: &str) -> bool {
    text.starts_with('{') && text.ends_with(":?}") && text.matches('{').count() == 1
}

/// Returns the text of a format without its fields; `None` for a text without fields.
fn fixed_part(text: &str) -> Option<String> {
    let (mut fixed, mut rest) = (String::new(), text);
    while let Some((before, after)) = rest.split_once('{') {
        fixed.push_str(before);
        rest = after.split_once('}')?.1;
    }
    fixed.push_str(rest);
    (rest.len() < text.len()).then_some(fixed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(source: &str) -> Vec<(String, bool)> {
        let mut words = Words::new();
        add(&mut words, "f.rs", &tokens::of(source));
        words.into_iter().map(|(word, occurrence)| (word, occurrence.is_certain)).collect()
    }

    #[test]
    fn words_and_formats_that_may_be_reasons_are_found() {
        let source = "f(\"NoCapacity\", \"no\", \"OK\", \"Two words\", \"Not{kind}\", \"{phase:?}\", \"{name}-x\", \"{name}\")";
        let found: Vec<String> = words(source).into_iter().map(|(word, _)| word).collect();
        assert_eq!(found, ["NoCapacity", "Not{kind}"]);
        assert_eq!(
            words("C { reason: if x { word } else { format!(\"{phase:?}\") }, y }"),
            [("{phase:?}".to_owned(), true)]
        );
    }

    #[test]
    fn one_certain_use_outweighs_the_others() {
        let source = "f(\"Gone\"); ReconcileError::waiting(\"Gone\", text); g(\"Gone\")";
        assert_eq!(words(source), [("Gone".to_owned(), true)]);
        assert_eq!(words("match it { \"Gone\" => 1 }"), []);
    }

    #[test]
    fn the_file_of_a_test_module_is_below_its_parent() {
        assert_eq!(path_of(Path::new("a/mod.rs"), "tests"), Path::new("a/tests"));
        assert_eq!(path_of(Path::new("a/b.rs"), "tests"), Path::new("a/b/tests"));
        assert_eq!(path_of(Path::new("a/b.rs"), "b_tests.rs"), Path::new("a/b_tests"));
    }
}
