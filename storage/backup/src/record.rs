//! Records: entries of a store as bytes, and their summary.
//!
//! Shape of a record: the length of the key in four bytes, the key, the revisions of its creation and of its last write
//! in eight bytes each, the length of the value in four bytes, and the value. All numbers have the least significant
//! byte first.

use aws_lc_rs::digest::{Context, SHA256};
use bytes::Bytes;
use storage_contract::{Entry, Key, Revision};

/// Bytes of an encoded summary.
const ENCODED: usize = DIGEST + 16;

/// Bytes of a SHA-256.
const DIGEST: usize = 32;

/// Summary of all entries of a backup.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Summary {
    /// Number of entries.
    pub entries: u64,
    /// Bytes of all records.
    pub bytes: u64,
    /// SHA-256 of all records.
    pub digest: [u8; DIGEST],
}

impl Summary {
    pub(crate) fn encode(&self) -> Vec<u8> {
        [&self.digest[..], &self.entries.to_le_bytes(), &self.bytes.to_le_bytes()].concat()
    }

    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; ENCODED] = bytes.try_into().ok()?;
        let (digest, rest) = bytes.split_first_chunk::<DIGEST>()?;
        let (entries, rest) = rest.split_first_chunk::<8>()?;
        let bytes = rest.first_chunk::<8>()?;
        Some(Self {
            entries: u64::from_le_bytes(*entries),
            bytes: u64::from_le_bytes(*bytes),
            digest: *digest,
        })
    }
}

/// Summary of the records so far.
pub(crate) struct Tally {
    entries: u64,
    bytes: u64,
    digest: Context,
}

impl Default for Tally {
    fn default() -> Self {
        Self { entries: 0, bytes: 0, digest: Context::new(&SHA256) }
    }
}

impl Tally {
    /// Counts one record.
    pub(crate) fn add(&mut self, record: &[u8]) {
        self.entries += 1;
        self.bytes += u64::try_from(record.len()).unwrap_or_default();
        self.digest.update(record);
    }

    pub(crate) fn summary(&self) -> Summary {
        let mut digest = [0; DIGEST];
        digest.copy_from_slice(self.digest.clone().finish().as_ref());
        Summary { entries: self.entries, bytes: self.bytes, digest }
    }
}

/// Appends the record of an entry. Returns `None` if the value or the key is longer than four bytes can say.
pub(crate) fn encode(entry: &Entry, out: &mut Vec<u8>) -> Option<()> {
    let (key, value) = (entry.key.as_bytes(), &entry.value);
    let [key_length, value_length] = [u32::try_from(key.len()).ok()?, u32::try_from(value.len()).ok()?];
    out.extend_from_slice(&key_length.to_le_bytes());
    out.extend_from_slice(key);
    out.extend_from_slice(&entry.created.number().to_le_bytes());
    out.extend_from_slice(&entry.modified.number().to_le_bytes());
    out.extend_from_slice(&value_length.to_le_bytes());
    out.extend_from_slice(value);
    Some(())
}

/// Parses the record at the beginning. Returns the entry with the length of the record, or `None` if it is incomplete.
pub(crate) fn parse(bytes: &[u8]) -> Result<Option<(Entry, usize)>, String> {
    let Some(Parts { key, created, modified, value }) = split(bytes) else { return Ok(None) };
    let text = std::str::from_utf8(key).map_err(|error| format!("a key is not text: {error}"))?;
    let key = Key::new(text).map_err(|error| error.to_string())?;
    let length = key.as_bytes().len() + value.len() + 4 + 8 + 8 + 4;
    Ok(Some((Entry { key, value: Bytes::copy_from_slice(value), modified, created }, length)))
}

/// Parts of a record.
struct Parts<'b> {
    key: &'b [u8],
    created: Revision,
    modified: Revision,
    value: &'b [u8],
}

/// Splits the record at the beginning, if it is complete.
fn split(bytes: &[u8]) -> Option<Parts<'_>> {
    let (key, rest) = counted(bytes)?;
    let (created, rest) = rest.split_first_chunk::<8>()?;
    let (modified, rest) = rest.split_first_chunk::<8>()?;
    let (value, _) = counted(rest)?;
    let [created, modified] = [created, modified].map(|number| Revision::new(u64::from_le_bytes(*number)));
    Some(Parts { key, created, modified, value })
}

/// Splits bytes after their length from the rest.
fn counted(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first_chunk::<4>()?;
    rest.split_at_checked(usize::try_from(u32::from_le_bytes(*length)).ok()?)
}
