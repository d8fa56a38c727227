//! Module check of the large crates: dependencies between their modules must match a committed list, in which those of
//! a cycle are marked.
//!
//! Crates cannot forbid anything inside themselves. These two are large enough to need it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

use crate::run;

/// File with the committed list of edges.
const GOLDEN: &str = "hack/xtask/modules.golden";

/// Checked crates. The list of each names the modules whose children count as modules of their own.
const CRATES: [(&str, &[&str]); 2] = [("apiserver/http", &[]), ("apiserver/machinery", &["store"])];

type Edges = BTreeMap<String, BTreeSet<String>>;

/// Compares the edges with the committed list.
///
/// # Errors
/// Names the edges that differ, with a mark on those of a cycle.
pub(crate) fn check() -> anyhow::Result<()> {
    let found = render()?;
    let golden = std::fs::read_to_string(run::root()?.join(GOLDEN)).unwrap_or_default();
    let (now, before): (BTreeSet<&str>, BTreeSet<&str>) = (found.lines().collect(), golden.lines().collect());
    let mut errors: Vec<String> = now.difference(&before).map(|edge| format!("new edge: {edge}")).collect();
    errors.extend(before.difference(&now).map(|edge| format!("edge is gone: {edge}")));
    if errors.is_empty() {
        return Ok(());
    }
    errors.push(format!("{GOLDEN}: if these edges are intended, run `cargo xtask generate`"));
    bail!("{}", errors.join("\n"))
}

/// Writes the current edges into the list.
pub(crate) fn generate() -> anyhow::Result<()> {
    std::fs::write(run::root()?.join(GOLDEN), render()?)
        .with_context(|| format!("{GOLDEN}: cannot be written"))
}

fn render() -> anyhow::Result<String> {
    let mut text = String::new();
    for (name, split) in CRATES {
        let edges = edges(&run::root()?.join(name).join("src"), split)?;
        for (from, targets) in &edges {
            for to in targets {
                let mark = if reaches(&edges, to, from) { " (cycle)" } else { "" };
                text.push_str(&format!("{name}: {from} -> {to}{mark}\n"));
            }
        }
    }
    Ok(text)
}

/// Returns true if `to` can be reached from `from`.
fn reaches(edges: &Edges, from: &str, to: &str) -> bool {
    let (mut open, mut known) = (vec![from], BTreeSet::new());
    while let Some(room) = open.pop() {
        if room == to {
            return true;
        }
        if known.insert(room) {
            open.extend(edges.get(room).into_iter().flatten().map(String::as_str));
        }
    }
    false
}

fn edges(source: &Path, split: &[&str]) -> anyhow::Result<Edges> {
    let mut edges = Edges::new();
    for path in rust_files(source)? {
        let relative = path.strip_prefix(source)?.with_extension("");
        let mut module: Vec<String> =
            relative.components().map(|part| part.as_os_str().to_string_lossy().into_owned()).collect();
        if module.last().is_some_and(|last| last == "mod" || last == "lib") {
            module.pop();
        }
        if module.is_empty() || module.iter().any(|part| part == "tests") {
            continue;
        }
        let from = room(&module, split);
        let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        for target in targets(&text, &module) {
            let to = room(&target, split);
            if to != from && !to.is_empty() && exists(source, &to) {
                edges.entry(from.clone()).or_default().insert(to);
            }
        }
    }
    Ok(edges)
}

fn exists(source: &Path, room: &str) -> bool {
    let path = source.join(room.replace("::", "/"));
    path.is_dir() || path.with_extension("rs").is_file()
}

/// Returns the checked module that contains a module: its first part, or its first two if the first is split.
fn room(module: &[String], split: &[&str]) -> String {
    match module {
        [first, second, ..]
            if split.contains(&first.as_str()) && second.chars().next().is_some_and(char::is_lowercase) =>
        {
            format!("{first}::{second}")
        }
        [first, ..] => first.clone(),
        [] => String::new(),
    }
}

/// The modules of this crate that a file names, in `use` and in paths, without those of its tests.
fn targets(text: &str, module: &[String]) -> Vec<Vec<String>> {
    let code = text.split("#[cfg(test)]").next().unwrap_or_default();
    let code: String =
        code.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n");
    let mut found = Vec::new();
    for root in ["crate", "super"] {
        for (at, _) in code.match_indices(&format!("{root}::")) {
            let before = code.get(..at).and_then(|text| text.chars().next_back());
            if before.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == ':') {
                continue;
            }
            let rest = code.get(at..).unwrap_or_default();
            let (mut base, rest) = base(rest, module);
            for tail in tails(rest) {
                let mut path = std::mem::take(&mut base.clone());
                path.extend(tail);
                found.push(path);
            }
            base.clear();
        }
    }
    found
}

/// The module that leading `crate` and `super` parts stand for, and the path behind them.
fn base<'a>(path: &'a str, module: &[String]) -> (Vec<String>, &'a str) {
    if let Some(rest) = path.strip_prefix("crate::") {
        return (Vec::new(), rest);
    }
    let (mut base, mut rest) = (module.to_vec(), path);
    while let Some(behind) = rest.strip_prefix("super::") {
        base.pop();
        rest = behind;
    }
    (base, rest)
}

/// The first two parts of each path that begins here: one path, or those of a group in braces.
fn tails(rest: &str) -> Vec<Vec<String>> {
    let Some(group) = rest.strip_prefix('{') else { return vec![path(rest)] };
    let (mut depth, mut begin, mut all) = (0, 0, Vec::new());
    for (at, letter) in group.char_indices() {
        match letter {
            '{' => depth += 1,
            '}' if depth == 0 => {
                all.push(path(group.get(begin..at).unwrap_or_default().trim()));
                break;
            }
            '}' => depth -= 1,
            ',' if depth == 0 => {
                all.push(path(group.get(begin..at).unwrap_or_default().trim()));
                begin = at + 1;
            }
            _ => {}
        }
    }
    all.retain(|path| !path.is_empty());
    all
}

fn path(text: &str) -> Vec<String> {
    let is_name = |c: char| c.is_alphanumeric() || c == '_';
    let parts = text.split("::").map(|part| part.chars().take_while(|c| is_name(*c)).collect::<String>());
    parts.take(2).take_while(|part| !part.is_empty()).collect()
}

fn rust_files(directory: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(directory).with_context(|| directory.display().to_string())? {
        let path = entry?.path();
        if path.is_dir() {
            all.extend(rust_files(&path)?);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            all.push(path);
        }
    }
    all.sort();
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_are_found_in_uses_groups_and_paths() {
        let text = "use crate::a::B;\nuse super::{c::{D, E}, f};\nfn g() { crate::h::i() }\n// crate::no\n#[cfg(test)]\nuse crate::t;";
        let module = ["store".to_owned(), "x".to_owned()];
        let found: Vec<String> = targets(text, &module).iter().map(|path| room(path, &["store"])).collect();
        assert_eq!(found, ["a", "h", "store::c", "store::f"]);
    }

    #[test]
    fn a_cycle_is_found_by_reachability() {
        let edge = |to: &str| BTreeSet::from([to.to_owned()]);
        let edges = Edges::from([("a".into(), edge("b")), ("b".into(), edge("c")), ("c".into(), edge("a"))]);
        assert!(reaches(&edges, "b", "a"));
        assert!(!reaches(&edges, "b", "d"));
    }
}
