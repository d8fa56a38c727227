//! Audit file with rotation by size.

use std::fs::{File, OpenOptions};
use std::io::{BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use jiff::Timestamp;

use super::chain::ChainLink;
use super::tail::Tail;
use super::writer::Destination;

/// File that is rotated when it is large, with a bounded number of old files.
#[derive(Debug)]
pub struct AuditFile {
    path: PathBuf,
    /// Size from which on the file is rotated. Unit: bytes.
    largest: u64,
    /// Number of old files that are kept.
    kept: usize,
    file: BufWriter<File>,
    written: u64,
}

impl AuditFile {
    /// Opens the file, which grows to `largest` bytes; `kept` old files stay. Only the owner may read them.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn open(path: &Path, largest: u64, kept: usize) -> std::io::Result<Self> {
        if let Some(directory) = path.parent() {
            std::fs::create_dir_all(directory)?;
        }
        let file = append(path)?;
        let written = file.metadata()?.len();
        Ok(Self { path: path.to_owned(), largest: largest.max(1), kept, file: BufWriter::new(file), written })
    }

    /// Opens the file of a chained log, as [`AuditFile::open`] does. Returns the link of the last line, which may be in a
    /// rotated file.
    ///
    /// An incomplete line at the end is removed: the process ended while it wrote it. If the last line has no link, the
    /// file is rotated, so that all lines of a file have links.
    ///
    /// # Errors
    /// If the file cannot be written, or a rotated one cannot be read.
    pub fn open_chained(
        path: &Path,
        largest: u64,
        kept: usize,
    ) -> std::io::Result<(Self, Option<ChainLink>)> {
        let mut file = Self::open(path, largest, kept)?;
        let tail = Tail::read(path)?;
        if tail.whole < file.written {
            let bytes = file.written - tail.whole;
            tracing::warn!(file = %path.display(), bytes, "removed an incomplete line at the end of the audit log");
            file.file.get_ref().set_len(tail.whole)?;
            file.written = tail.whole;
        }
        if tail.link.is_some() {
            return Ok((file, tail.link));
        }
        if file.written > 0 {
            file.rotate()?;
        }
        for older in file.older()?.iter().rev() {
            if let Some(link) = Tail::read(older)?.link {
                return Ok((file, Some(link)));
            }
        }
        Ok((file, None))
    }

    /// Renames the file with a time stamp and opens a new one.
    fn rotate(&mut self) -> std::io::Result<()> {
        self.file.flush()?;
        let now = Timestamp::now().strftime("%Y-%m-%dT%H-%M-%S%.6f").to_string();
        match std::fs::rename(&self.path, self.aside(&now)) {
            // Another program has moved the file, or this is the next attempt after a file could not be opened.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            renamed => renamed?,
        }
        self.file = BufWriter::new(append(&self.path)?);
        self.written = 0;
        let older = self.older()?;
        for path in older.iter().take(older.len().saturating_sub(self.kept)) {
            std::fs::remove_file(path)?;
        }
        Ok(())
    }

    fn aside(&self, when: &str) -> PathBuf {
        let (stem, extension) = self.name();
        self.path.with_file_name(format!("{stem}-{when}{extension}"))
    }

    /// Returns the parts of the name, e.g. `audit` and `.log`.
    fn name(&self) -> (String, String) {
        let text = |part: Option<&std::ffi::OsStr>| part.map(|part| part.to_string_lossy().into_owned());
        let extension = text(self.path.extension()).map(|extension| format!(".{extension}"));
        (text(self.path.file_stem()).unwrap_or_default(), extension.unwrap_or_default())
    }

    /// Returns the old files, the oldest first: their names sort by time.
    pub(super) fn older(&self) -> std::io::Result<Vec<PathBuf>> {
        let (stem, extension) = self.name();
        let directory = self.path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let mut older = Vec::new();
        for entry in std::fs::read_dir(directory.unwrap_or_else(|| Path::new(".")))? {
            let path = entry?.path();
            let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            let when = name.strip_prefix(&format!("{stem}-")).and_then(|rest| rest.strip_suffix(&extension));
            if when.is_some_and(|when| when.starts_with(|first: char| first.is_ascii_digit())) {
                older.push(path);
            }
        }
        older.sort();
        Ok(older)
    }
}

fn append(path: &Path) -> std::io::Result<File> {
    OpenOptions::new().create(true).append(true).mode(0o600).open(path)
}

impl Write for AuditFile {
    /// Writes one line at a time, so that a file ends with a whole one.
    fn write(&mut self, line: &[u8]) -> std::io::Result<usize> {
        if self.rotates_before(line.len()) {
            self.rotate()?;
        }
        self.file.write_all(line)?;
        self.written = self.written.saturating_add(u64::try_from(line.len()).unwrap_or(u64::MAX));
        Ok(line.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.file.flush()
    }
}

impl Destination for AuditFile {
    fn rotates_before(&self, length: usize) -> bool {
        let length = u64::try_from(length).unwrap_or(u64::MAX);
        self.written > 0 && self.written.saturating_add(length) > self.largest
    }

    fn sync(&mut self) -> std::io::Result<()> {
        self.file.flush()?;
        self.file.get_ref().sync_data()
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::observe::audit::log::Lost;
    use crate::observe::audit::{AuditLog, Stage};

    #[test]
    fn no_line_is_lost_or_truncated_and_old_files_are_removed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("log/audit.log");
        let open = || AuditFile::open(&path, 1000, 2).unwrap();
        let log = AuditLog::to_file(open(), vec![Stage::RequestReceived]).unwrap();
        assert!(log.takes(Stage::ResponseComplete) && !log.takes(Stage::RequestReceived));
        let line = |number: usize| format!("{{\"number\": {number:03}}}\n");
        for number in 0..100 {
            assert_eq!(log.write(line(number)), Lost::default());
        }
        log.flush();
        let log = AuditLog::to_file(open(), Vec::new()).unwrap();
        for number in 100..180 {
            assert_eq!(log.write(line(number)), Lost::default());
        }
        log.flush();
        let mut files = open().older().unwrap();
        assert_eq!(files.len(), 2, "{files:?}");
        files.push(path.clone());
        let text: String = files.iter().map(|file| std::fs::read_to_string(file).unwrap()).collect();
        assert!(files.iter().all(|file| file.metadata().unwrap().len() <= 1000));
        assert!(files.iter().all(|file| file.metadata().unwrap().permissions().mode() & 0o77 == 0));
        let last: String = (180 - text.lines().count()..180).map(line).collect();
        assert_eq!(text, last, "the newest, whole and in order");
        assert!(text.lines().count() > 110, "{}", text.lines().count());
    }

    #[test]
    fn a_file_that_another_program_has_moved_is_replaced_and_no_later_line_is_lost() {
        let directory = tempfile::tempdir().unwrap();
        let (path, moved) = (directory.path().join("audit.log"), directory.path().join("moved"));
        let mut file = AuditFile::open(&path, 10, 2).unwrap();
        for text in ["first\n", "second\n", "third\n"] {
            file.write_all(text.as_bytes()).unwrap();
            if text == "first\n" {
                std::fs::rename(&path, &moved).unwrap();
            }
        }
        file.flush().unwrap();
        let files = [vec![moved], file.older().unwrap(), vec![path]].concat();
        let texts: Vec<String> = files.iter().map(|file| std::fs::read_to_string(file).unwrap()).collect();
        assert_eq!(texts, ["first\n", "second\n", "third\n"]);
    }
}
