//! Archives whose bytes depend on the names and the content of their files only.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};

use crate::{deb, run};

/// Bits of a mode: a program for some user.
const EXECUTABLE: u32 = 0o111;

/// Files on this machine by their names in an archive.
pub(super) type Files = BTreeMap<String, PathBuf>;

/// Returns all files below a folder. Their names begin with a prefix.
pub(super) fn below(folder: &Path, prefix: &str) -> anyhow::Result<Files> {
    let (mut files, mut open) = (Files::new(), vec![folder.to_owned()]);
    while let Some(directory) = open.pop() {
        for entry in std::fs::read_dir(&directory).with_context(|| directory.display().to_string())? {
            let path = entry?.path();
            if path.is_dir() {
                open.push(path);
                continue;
            }
            let name = format!("{prefix}{}", path.strip_prefix(folder)?.display());
            files.insert(name, path);
        }
    }
    Ok(files)
}

/// Returns the files below a folder of the checkout that git knows, so none with keys. `prefix` replaces the folder.
pub(super) fn tracked(folder: &str, prefix: &str) -> anyhow::Result<Files> {
    let root = run::root()?;
    let mut git = Command::new("git");
    let list = run::output(git.args(["ls-files", "--cached", "--", folder]).current_dir(&root))?;
    let file = |path: &str| Some((format!("{prefix}{}", path.strip_prefix(folder)?), root.join(path)));
    let files: Files = list.lines().filter_map(file).collect();
    ensure!(!files.is_empty(), "git has no files in {folder}");
    Ok(files)
}

/// Writes an archive.
pub(super) fn write(files: &Files, path: &Path) -> anyhow::Result<()> {
    let file = File::create(path).with_context(|| path.display().to_string())?;
    pack(files, file).map(drop).with_context(|| path.display().to_string())
}

/// Returns a compressed archive.
pub(super) fn compressed(files: &Files) -> anyhow::Result<Vec<u8>> {
    deb::compressed(&pack(files, Vec::new())?)
}

/// Packs files in the order of their names, without times, users and groups. A symbolic link becomes the file to which it
/// leads.
fn pack<W: Write>(files: &Files, writer: W) -> anyhow::Result<W> {
    let mut builder = tar::Builder::new(writer);
    for (name, path) in files {
        let content = std::fs::read(path).with_context(|| path.display().to_string())?;
        let is_program = std::fs::metadata(path)?.permissions().mode() & EXECUTABLE != 0;
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(tar::EntryType::Regular);
        header.set_mode(if is_program { 0o755 } else { 0o644 });
        header.set_uid(0);
        header.set_gid(0);
        header.set_mtime(0);
        header.set_size(u64::try_from(content.len())?);
        builder.append_data(&mut header, name, &content[..])?;
    }
    Ok(builder.into_inner()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_archives_of_the_same_files_are_the_same_whatever_their_times_are() {
        let home = std::env::temp_dir().join(format!("capstan-release-archive-{}", std::process::id()));
        let archives = ["first", "second"].map(|name| {
            let folder = home.join(name);
            std::fs::create_dir_all(folder.join("bin")).unwrap();
            std::fs::write(folder.join("bin/b"), "program").unwrap();
            std::fs::set_permissions(folder.join("bin/b"), PermissionsExt::from_mode(0o700)).unwrap();
            std::os::unix::fs::symlink("bin/b", folder.join("a")).unwrap();
            std::thread::sleep(std::time::Duration::from_millis(1));
            pack(&below(&folder, "top/").unwrap(), Vec::new()).unwrap()
        });
        std::fs::remove_dir_all(home).unwrap();
        assert_eq!(archives[0], archives[1]);
        let mut archive = tar::Archive::new(&archives[0][..]);
        let entries = archive.entries().unwrap().map(|entry| {
            let entry = entry.unwrap();
            let name = entry.path().unwrap().display().to_string();
            (name, entry.header().mode().unwrap(), entry.header().mtime().unwrap(), entry.size())
        });
        assert_eq!(
            entries.collect::<Vec<_>>(),
            [("top/a".to_owned(), 0o755, 0, 7), ("top/bin/b".to_owned(), 0o755, 0, 7)]
        );
    }

    #[test]
    fn the_archive_of_the_manifests_has_the_chart_and_no_keys() {
        let files = tracked("manifests", "manifests").unwrap();
        assert!(files.contains_key("manifests/chart/Chart.yaml"));
        assert!(files.contains_key("manifests/keys/kustomization.yaml"));
        let is_key = |name: &&String| name.ends_with(".key") || name.ends_with("encryption.yaml");
        assert_eq!(files.keys().find(is_key), None);
        let chart = tracked("manifests/chart", "capstan").unwrap();
        assert!(chart.contains_key("capstan/Chart.yaml") && chart.contains_key("capstan/files/apis.yaml"));
    }
}
