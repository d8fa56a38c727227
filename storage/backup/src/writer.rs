//! Writer of a backup file.

use std::io::Write;

use lz4_flex::block;
use storage_contract::Entry;

use crate::frame::{CONTENT, Class, Frames};
use crate::key::random;
use crate::record::{self, Summary, Tally};
use crate::{BackupError, BackupKey, Header};

/// Forms of the content of a frame with entries: the first byte.
pub(crate) const PLAIN: u8 = 0;
pub(crate) const COMPRESSED: u8 = 1;

/// Writer of a backup file. The file is complete only after [`Writer::finish`].
pub struct Writer<W> {
    out: W,
    frames: Frames,
    /// Records that are in no frame yet.
    waiting: Vec<u8>,
    tally: Tally,
}

impl<W: std::fmt::Debug> std::fmt::Debug for Writer<W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Writer").field("out", &self.out).finish_non_exhaustive()
    }
}

impl<W: Write> Writer<W> {
    /// Writes the header. It gets the fingerprint of the key.
    ///
    /// # Errors
    /// `Io`; `Crypto`; `Unwritable`, if a field has a line break.
    pub fn new(mut out: W, header: &Header, key: &BackupKey) -> Result<Self, BackupError> {
        let salt = random()?;
        let header = Header { backup_key: key.fingerprint(), ..header.clone() }.encode(&salt)?;
        out.write_all(&header)?;
        let frames = Frames::new(key, &salt, &header)?;
        Ok(Self { out, frames, waiting: Vec::new(), tally: Tally::default() })
    }

    /// Adds an entry. Entries come in the order of their keys.
    ///
    /// # Errors
    /// `Io`; `Crypto`; `Unwritable`.
    pub fn add(&mut self, entry: &Entry) -> Result<(), BackupError> {
        let begin = self.waiting.len();
        record::encode(entry, &mut self.waiting)
            .ok_or_else(|| BackupError::Unwritable(format!("{}: its value is too large", entry.key)))?;
        self.tally.add(&self.waiting[begin..]);
        while self.waiting.len() >= CONTENT {
            let rest = self.waiting.split_off(CONTENT);
            let chunk = std::mem::replace(&mut self.waiting, rest);
            self.write_chunk(&chunk)?;
        }
        Ok(())
    }

    /// Returns the output, for one that is sent on in parts. The caller may take complete parts away.
    pub const fn written(&mut self) -> &mut W {
        &mut self.out
    }

    /// Writes a frame of this content, which may be none of an entry.
    ///
    /// # Errors
    /// `Io`; `Crypto`; `Unwritable`.
    #[cfg(feature = "raw")]
    pub fn add_raw(&mut self, is_last: bool, content: Vec<u8>) -> Result<(), BackupError> {
        self.frames.write(&mut self.out, if is_last { Class::Last } else { Class::Entries }, content)
    }

    fn write_chunk(&mut self, chunk: &[u8]) -> Result<(), BackupError> {
        let length = u32::try_from(chunk.len()).map_err(|_| BackupError::Crypto)?;
        let compressed = block::compress(chunk);
        let content = if compressed.len() + size_of::<u32>() < chunk.len() {
            [&[COMPRESSED][..], &length.to_le_bytes(), &compressed].concat()
        } else {
            [&[PLAIN][..], chunk].concat()
        };
        self.frames.write(&mut self.out, Class::Entries, content)
    }

    /// Writes the last frame, and returns the output.
    ///
    /// # Errors
    /// `Io`; `Crypto`.
    pub fn finish(mut self) -> Result<(W, Summary), BackupError> {
        if !self.waiting.is_empty() {
            let rest = std::mem::take(&mut self.waiting);
            self.write_chunk(&rest)?;
        }
        let summary = self.tally.summary();
        self.frames.write(&mut self.out, Class::Last, summary.encode())?;
        self.out.flush()?;
        Ok((self.out, summary))
    }
}
