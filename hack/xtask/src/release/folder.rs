//! Folder of a release: under another name until it is complete, so that a part of a release never looks like one.

use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};

use super::sums;

/// Folder that is being filled.
#[derive(Debug)]
pub(super) struct Folder {
    unfinished: PathBuf,
    output: PathBuf,
}

impl Folder {
    /// Creates an empty folder beside `output`.
    ///
    /// # Errors
    /// `output` is a folder with other files than those of a release, which this command does not remove.
    pub(super) fn create(output: &Path) -> anyhow::Result<Self> {
        let is_release = output.join(sums::NAME).is_file();
        ensure!(
            is_release || !output.exists(),
            "{}: it is there, and has no {}: remove it, or name another folder with --output",
            output.display(),
            sums::NAME
        );
        let mut unfinished = output.as_os_str().to_owned();
        unfinished.push(".unfinished");
        let unfinished = PathBuf::from(unfinished);
        remove(&unfinished)?;
        std::fs::create_dir_all(&unfinished).with_context(|| unfinished.display().to_string())?;
        Ok(Self { unfinished, output: output.to_owned() })
    }

    pub(super) fn path(&self) -> &Path {
        &self.unfinished
    }

    /// Gives the folder its name, in place of an earlier release.
    pub(super) fn finish(self) -> anyhow::Result<()> {
        remove(&self.output)?;
        std::fs::rename(&self.unfinished, &self.output)
            .with_context(|| format!("{}: cannot be renamed to its final name", self.output.display()))
    }
}

fn remove(folder: &Path) -> anyhow::Result<()> {
    if folder.exists() {
        std::fs::remove_dir_all(folder).with_context(|| folder.display().to_string())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_release_is_replaced_and_other_folders_are_refused() {
        let home = std::env::temp_dir().join(format!("capstan-release-folder-{}", std::process::id()));
        let output = home.join("dist");
        for content in ["first", "second"] {
            let folder = Folder::create(&output).unwrap();
            assert!(!folder.path().join("file").exists(), "the folder is not empty");
            std::fs::write(folder.path().join("file"), content).unwrap();
            sums::write(folder.path()).unwrap();
            folder.finish().unwrap();
            assert_eq!(std::fs::read_to_string(output.join("file")).unwrap(), content);
        }
        std::fs::remove_file(output.join(sums::NAME)).unwrap();
        let error = Folder::create(&output).unwrap_err();
        assert!(format!("{error:#}").contains(sums::NAME), "{error:#}");
        std::fs::remove_dir_all(home).unwrap();
    }
}
