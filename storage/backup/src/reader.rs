//! Reader of a backup file.

use std::io::Read;

use lz4_flex::block;
use storage_contract::{Entry, Key};

use crate::frame::{CONTENT, Class, Frames};
use crate::record::{self, Summary, Tally};
use crate::writer::{COMPRESSED, PLAIN};
use crate::{BackupError, BackupKey, Header, frame};

/// Reader of a backup file. Each entry is authentic, but the file is known to be complete only at its end.
pub struct Reader<R> {
    input: R,
    header: Header,
    frames: Frames,
    /// Opened records, of which those before `at` were returned.
    opened: Vec<u8>,
    at: usize,
    tally: Tally,
    last_key: Option<Key>,
    summary: Option<Summary>,
}

impl<R: std::fmt::Debug> std::fmt::Debug for Reader<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reader")
            .field("input", &self.input)
            .field("header", &self.header)
            .finish_non_exhaustive()
    }
}

impl Header {
    /// Reads the header of a backup file without its key. It is not authenticated.
    ///
    /// # Errors
    /// `Io`; `NotABackup`; `Version`.
    pub fn peek(input: &mut impl Read) -> Result<Self, BackupError> {
        Self::read(input).map(|(header, _, _)| header)
    }
}

/// Checks without the key that a file goes to its last frame. Returns its header and its size. Nothing is authenticated.
///
/// # Errors
/// `Io`; `NotABackup`; `Version`; `CutOff`; `Damaged`, if a frame has an impossible class or length, or if the file goes
/// on after its last frame.
pub fn check_complete(input: &mut impl Read) -> Result<(Header, u64), BackupError> {
    let (header, bytes, _) = Header::read(input)?;
    let size = frame::skip_all(input)?;
    Ok((header, size.saturating_add(u64::try_from(bytes.len()).unwrap_or_default())))
}

impl<R: Read> Reader<R> {
    /// Reads the header.
    ///
    /// # Errors
    /// `Io`; `NotABackup`; `Version`; `WrongKey`.
    pub fn open(mut input: R, key: &BackupKey) -> Result<Self, BackupError> {
        let (header, bytes, salt) = Header::read(&mut input)?;
        let found = key.fingerprint();
        if header.backup_key != found {
            return Err(BackupError::WrongKey { expected: header.backup_key, found });
        }
        let frames = Frames::new(key, &salt, &bytes)?;
        let (opened, tally) = (Vec::new(), Tally::default());
        Ok(Self { input, header, frames, opened, at: 0, tally, last_key: None, summary: None })
    }

    /// Returns the header. It is authentic as soon as the first entry, or the end, has been read.
    pub const fn header(&self) -> &Header {
        &self.header
    }

    /// Returns the summary of the file, once the end has been read.
    pub const fn summary(&self) -> Option<&Summary> {
        self.summary.as_ref()
    }

    /// Returns the next entry, or `None` at the end of a complete file.
    ///
    /// # Errors
    /// `Io`; `Damaged`; `CutOff`.
    pub fn next_entry(&mut self) -> Result<Option<Entry>, BackupError> {
        loop {
            let rest = self.opened.get(self.at..).unwrap_or_default();
            let parsed = record::parse(rest).map_err(|detail| self.frames.damaged(detail))?;
            if let Some((entry, length)) = parsed {
                self.tally.add(&rest[..length]);
                self.at += length;
                if self.last_key.as_ref().is_some_and(|last| *last >= entry.key) {
                    return Err(self.frames.damaged(format!("the key {} is out of order", entry.key)));
                }
                self.last_key = Some(entry.key.clone());
                return Ok(Some(entry));
            }
            if self.summary.is_some() {
                return Ok(None);
            }
            self.read_frame()?;
        }
    }

    fn read_frame(&mut self) -> Result<(), BackupError> {
        match self.frames.read(&mut self.input)? {
            (Class::Entries, content) => {
                let records = expand(&content).ok_or_else(|| self.frames.damaged("its content".into()))?;
                self.opened.drain(..std::mem::take(&mut self.at));
                self.opened.extend(records);
                Ok(())
            }
            (Class::Last, content) => self.end(&content),
        }
    }

    /// Compares the summary of the file with the entries that were read.
    fn end(&mut self, content: &[u8]) -> Result<(), BackupError> {
        let summary = self.tally.summary();
        if self.at < self.opened.len() || Summary::parse(content) != Some(summary) {
            let detail = format!("its summary is not that of the {} entries before it", summary.entries);
            return Err(self.frames.damaged(detail));
        }
        if self.input.read(&mut [0])? > 0 {
            return Err(self.frames.damaged("the file goes on after its last frame".to_owned()));
        }
        self.summary = Some(summary);
        Ok(())
    }

    /// Reads the rest of the file, and passes each entry to a check.
    ///
    /// # Errors
    /// `Io`; `Damaged`; `CutOff`.
    pub fn verify(mut self, mut check: impl FnMut(&Entry)) -> Result<(Header, Summary), BackupError> {
        while let Some(entry) = self.next_entry()? {
            check(&entry);
        }
        Ok((self.header, self.summary.unwrap_or_default()))
    }
}

/// Returns the records in the content of a frame.
fn expand(content: &[u8]) -> Option<Vec<u8>> {
    let (form, rest) = content.split_first()?;
    match *form {
        PLAIN => Some(rest.to_vec()),
        COMPRESSED => {
            let (length, compressed) = rest.split_first_chunk::<4>()?;
            let length = usize::try_from(u32::from_le_bytes(*length)).ok()?;
            let records = (length <= CONTENT).then(|| block::decompress(compressed, length))?.ok()?;
            (records.len() == length).then_some(records)
        }
        _ => None,
    }
}
