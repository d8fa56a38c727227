//! Journal: durable writes, in order, that are not in the database yet.
//!
//! The journal alternates between two files. A batch of writes is appended to one of them and synced, and its callers
//! wait for nothing else. When the database has all writes of a file, the file is overwritten from its start. So most
//! writes go to blocks that the file system has already allocated, and a sync need not wait for the file system's own
//! records.

mod batch;

use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use storage_contract::Revision;

use crate::{OpenError, layout};

pub(crate) use batch::Record;

/// Capacity of a file: about five thousand writes, which the database takes in a tenth of a second. Twice as much was
/// no faster, and let a write wait for twice as long where the disk cannot follow.
const CAPACITY: u64 = 16 * 1024 * 1024;

/// Growth of a file: it doubles, between these two bounds, so that the first write of a small store waits for little.
/// The blocks are written, not only allocated: a later sync of them changes no file system metadata.
const GROWTH: (u64, u64) = (64 * 1024, 4 * 1024 * 1024);

/// The two files.
#[derive(Debug)]
pub(crate) struct Journal {
    files: [JournalFile; 2],
    /// Index of the file that is written.
    writing: usize,
    /// The store's number, which identifies its batches.
    store: u64,
    /// Buffer of the batch that is being written; kept to reuse its memory.
    batch: Vec<u8>,
    /// Length of the batch.
    length: u64,
}

#[derive(Debug)]
struct JournalFile {
    file: File,
    /// Offset of the next batch.
    at: u64,
    /// Length of the file's allocated blocks.
    length: u64,
}

impl Journal {
    /// Opens the files beside the database at `path`. It creates missing files, unless they are `needed`.
    pub(crate) fn open(path: &Path, store: u64, needed: bool) -> Result<Self, OpenError> {
        if let Some(missing) = paths(path).into_iter().find(|file| needed && !file.exists()) {
            let detail =
                format!("it was not closed, and its journal {} is missing: restore it", missing.display());
            return Err(OpenError::Unusable { path: path.to_owned(), detail });
        }
        let open = |path: PathBuf| {
            let file = layout::private_file(&path).and_then(|file| {
                layout::keep_private(&path)?;
                Ok((file.metadata()?.len(), file))
            });
            let (length, file) = file.map_err(|source| OpenError::Io { path, source })?;
            Ok(JournalFile { file, at: 0, length })
        };
        let [first, second] = paths(path);
        let journal =
            Self { files: [open(first)?, open(second)?], writing: 0, store, batch: Vec::new(), length: 0 };
        layout::sync_names(path).map_err(|source| OpenError::Io { path: path.to_owned(), source })?;
        Ok(journal)
    }

    /// Returns the writes after `checkpointed`, in order.
    ///
    /// # Errors
    /// Text for a person, if some of them are missing: only the last batch may be.
    pub(crate) fn read(&mut self, checkpointed: Revision) -> Result<Vec<Record>, String> {
        let mut batches = Vec::new();
        for each in &mut self.files {
            let mut bytes = Vec::new();
            let read = each.file.seek(SeekFrom::Start(0)).and_then(|_| each.file.read_to_end(&mut bytes));
            read.map_err(|error| format!("its journal cannot be read: {error}"))?;
            batches.extend(batch::read_all(&bytes, self.store, checkpointed)?);
        }
        batches.sort_by_key(|batch| batch.first().map(|first| first.revision));
        let mut next = checkpointed.next();
        let records: Vec<Record> =
            batches.into_iter().flatten().filter(|record| record.revision > checkpointed).collect();
        for Record { revision, .. } in &records {
            if *revision != next {
                return Err(format!(
                    "the write of revision {next} is missing; its journal goes on at {revision}"
                ));
            }
            next = next.next();
        }
        Ok(records)
    }

    /// Encodes `records` into the batch that [`Journal::append`] writes.
    pub(crate) fn prepare(&mut self, records: &[Record]) {
        self.length = batch::write(&mut self.batch, self.store, records);
    }

    /// Returns true if the batch fits into the file that is written.
    pub(crate) fn has_room(&self) -> bool {
        let file = &self.files[self.writing];
        file.at == 0 || file.at + self.length <= CAPACITY
    }

    /// Switches to the start of the other file, whose contents are not needed any more.
    pub(crate) fn switch_files(&mut self) {
        self.writing = 1 - self.writing;
        self.files[self.writing].at = 0;
    }

    /// Empties both files: the database has their writes.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn clear(&mut self) -> std::io::Result<()> {
        for each in &mut self.files {
            each.file.set_len(0)?;
            (each.at, each.length) = (0, 0);
        }
        Ok(())
    }

    /// Allocates the blocks of the batch.
    ///
    /// # Errors
    /// The system's, for example a full disk. Nothing was written.
    pub(crate) fn reserve(&mut self) -> std::io::Result<()> {
        let end = self.files[self.writing].at + self.length;
        self.files[self.writing].grow_to(end)
    }

    /// Writes the batch and syncs it.
    ///
    /// # Errors
    /// The system's. It may have been written, whole or in part.
    pub(crate) fn append(&mut self) -> std::io::Result<()> {
        let file = &mut self.files[self.writing];
        file.file.seek(SeekFrom::Start(file.at))?;
        file.file.write_all(&self.batch)?;
        file.file.sync_data()?;
        file.at += self.length;
        Ok(())
    }
}

impl JournalFile {
    fn grow_to(&mut self, end: u64) -> std::io::Result<()> {
        if end <= self.length {
            return Ok(());
        }
        let growth = self.length.clamp(GROWTH.0, GROWTH.1);
        let end = end.max((self.length + growth).min(CAPACITY));
        self.file.seek(SeekFrom::Start(self.length))?;
        let zeros = &mut std::io::repeat(0).take(end - self.length);
        if let Err(error) = std::io::copy(zeros, &mut self.file) {
            // The blocks of a full disk are freed again: other programs need them, too.
            let _ = self.file.set_len(self.length);
            return Err(error);
        }
        self.length = end;
        Ok(())
    }
}

/// Returns the paths of the journal of the database at `path`.
pub(crate) fn paths(path: &Path) -> [PathBuf; 2] {
    [0, 1].map(|number| {
        let mut name = path.as_os_str().to_owned();
        name.push(format!("-journal-{number}"));
        name.into()
    })
}
