//! Checksums of files, in the form that `sha256sum --check` reads.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::Context;

use super::archive;
use crate::image;

/// Name of the file with the checksums.
pub(super) const NAME: &str = "SHA256SUMS";

/// Separator between a checksum and a name. The second space means a text file, which is the same as a binary one on Linux.
const SEPARATOR: &str = "  ";

/// Checksums in hexadecimal digits, by the names of the files.
pub(super) type Sums = BTreeMap<String, String>;

/// Returns the checksums of all files below a folder, without those of the file with the checksums.
pub(super) fn of(folder: &Path) -> anyhow::Result<Sums> {
    let files = archive::below(folder, "")?.into_iter().filter(|(name, _)| name != NAME);
    let sum = |(name, path): (String, PathBuf)| {
        let content = std::fs::read(&path).with_context(|| name.clone())?;
        anyhow::Ok((name, image::hex(&content)))
    };
    files.map(sum).collect()
}

/// Writes the checksums of all files below a folder into it.
pub(super) fn write(folder: &Path) -> anyhow::Result<()> {
    std::fs::write(folder.join(NAME), text(&of(folder)?)).context(NAME)
}

/// Reads the file with the checksums in a folder.
pub(super) fn read(folder: &Path) -> anyhow::Result<Sums> {
    let path = folder.join(NAME);
    parse(&std::fs::read_to_string(&path).with_context(|| path.display().to_string())?)
}

fn text(sums: &Sums) -> String {
    sums.iter().map(|(name, sum)| format!("{sum}{SEPARATOR}{name}\n")).collect()
}

fn parse(text: &str) -> anyhow::Result<Sums> {
    let entry = |line: &str| {
        let (sum, name) = line.split_once(SEPARATOR).with_context(|| format!("{NAME}: {line:?}"))?;
        anyhow::Ok((name.to_owned(), sum.to_owned()))
    };
    text.lines().map(entry).collect()
}

/// Returns the names of the files that are in one list only, or that have another checksum in the other one.
pub(super) fn differences<'a>(one: &'a Sums, other: &'a Sums) -> Vec<&'a str> {
    let mut names: Vec<&str> = one
        .iter()
        .filter(|(name, sum)| other.get(*name) != Some(*sum))
        .map(|(name, _)| name.as_str())
        .collect();
    names.extend(other.keys().filter(|name| !one.contains_key(*name)).map(String::as_str));
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checksum of no bytes.
    const EMPTY: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

    fn sums(entries: &[(&str, &str)]) -> Sums {
        entries.iter().map(|(name, sum)| ((*name).to_owned(), (*sum).to_owned())).collect()
    }

    #[test]
    fn the_checksums_are_in_the_form_of_sha256sum_and_sorted_by_name() {
        let home = std::env::temp_dir().join(format!("capstan-release-sums-{}", std::process::id()));
        std::fs::create_dir_all(home.join("folder")).unwrap();
        std::fs::write(home.join("b file"), "").unwrap();
        std::fs::write(home.join("folder/a"), "").unwrap();
        for _ in 0..2 {
            // The file itself is not in the list, also in the second run.
            write(&home).unwrap();
            let text = std::fs::read_to_string(home.join(NAME)).unwrap();
            assert_eq!(text, format!("{EMPTY}  b file\n{EMPTY}  folder/a\n"));
        }
        assert_eq!(read(&home).unwrap(), sums(&[("b file", EMPTY), ("folder/a", EMPTY)]));
        std::fs::remove_dir_all(home).unwrap();
    }

    #[test]
    fn a_line_without_a_name_is_an_error() {
        assert!(parse(&format!("{EMPTY}\n")).is_err());
    }

    #[test]
    fn another_checksum_and_a_missing_file_on_either_side_are_differences() {
        let one = sums(&[("changed", "1"), ("first", "2"), ("same", "3")]);
        let other = sums(&[("changed", "4"), ("same", "3"), ("second", "2")]);
        assert_eq!(differences(&one, &other), ["changed", "first", "second"]);
        assert!(differences(&one, &one).is_empty());
    }
}
