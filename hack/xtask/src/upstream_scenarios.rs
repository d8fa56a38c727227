//! Check of `docs/upstream-scenarios.md`: each test that it names exists in the file that it names.

use std::path::Path;

/// Page with a link to each test. The text of a link is the name of the test, and its target is the file.
const PAGE: &str = "docs/upstream-scenarios.md";

/// Returns text and target of each link to a file of the repository outside of `docs`.
fn links(page: &str) -> impl Iterator<Item = (&str, &str)> {
    page.match_indices("](../").filter_map(|(at, link)| {
        let text = page.get(..at)?.rsplit('[').next()?;
        let target = page.get(at + link.len()..)?.split(')').next()?;
        Some((text.trim_matches('`'), target))
    })
}

/// Returns true if a source has a test of this name: a function, or a scenario whose name is a sentence.
fn has_test(source: &str, name: &str) -> bool {
    source.contains(&format!("fn {name}(")) || source.contains(&format!("\"{name}\""))
}

/// Returns the links whose tests do not exist.
fn broken(root: &Path, page: &str) -> Vec<String> {
    let source = |target: &str| std::fs::read_to_string(root.join(target)).unwrap_or_default();
    let broken = links(page).filter(|(name, target)| !has_test(&source(target), name));
    broken.map(|(name, target)| format!("{PAGE}: {target} has no test {name:?}")).collect()
}

#[test]
fn each_named_test_exists() {
    let root = crate::run::root().unwrap_or_else(|error| panic!("{error:#}"));
    let page = std::fs::read_to_string(root.join(PAGE)).unwrap_or_default();
    assert!(links(&page).count() > 80, "{PAGE} names few tests");
    let broken = broken(&root, &page);
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

#[test]
fn a_renamed_test_and_a_moved_file_are_found() {
    let page = "[`links`](../a/b.rs); [a sentence, and more](../c.rs) [page](conformance.md)";
    assert_eq!(links(page).collect::<Vec<_>>(), [("links", "a/b.rs"), ("a sentence, and more", "c.rs")]);
    assert!(has_test("async fn links() {", "links") && !has_test("fn links_of() {", "links"));
    assert!(has_test("(\"a sentence\", f)", "a sentence"));
    assert_eq!(broken(Path::new("/nowhere"), page).len(), 2);
}
