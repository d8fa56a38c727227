//! Batch of writes, in the journal's format.
//!
//! A batch starts at a block's boundary, and no block has parts of two batches: a torn write cannot damage an
//! acknowledged batch. The store's number identifies a batch, and its checksum proves it whole. The next batch is
//! written only after the last one was synced. So of the batches that the database does not have, only the last can
//! be torn.
//!
//! On the disk, numbers little-endian: `CJN1`, CRC-32 of all that follows, the store's number (8), first revision (8),
//! number of records (4), length of the records (4). A record: revision of the creation (8), of the write before (8),
//! length of the key (4) and of the value (4, all bits set for a deletion), key, value.

use bytes::Bytes;
use storage_contract::{Key, Revision};

/// Size of a block, which a disk writes whole or not at all.
const BLOCK: usize = 4096;

const MAGIC: [u8; 4] = *b"CJN1";

/// Bytes before the first record.
const HEADER: usize = 32;

/// Bytes that the checksum does not cover: the magic and the checksum itself.
const UNCHECKED: usize = 8;

/// Length that marks a deletion.
const DELETION: u32 = u32::MAX;

/// One write.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) key: Key,
    pub(crate) revision: Revision,
    /// The revision of the creation, also for a deletion.
    pub(crate) created: Revision,
    /// The revision of the write that this one replaced; none if the key did not exist.
    pub(crate) previous: Revision,
    /// `None`: the key is gone.
    pub(crate) value: Option<Bytes>,
}

/// Bytes of a record besides its key and its value.
const RECORD: usize = 24;

/// Encodes `records` into `batch`, and returns its length.
pub(super) fn write(batch: &mut Vec<u8>, store: u64, records: &[Record]) -> u64 {
    batch.clear();
    batch.extend(MAGIC);
    batch.extend([0; 4]);
    batch.extend(store.to_le_bytes());
    batch.extend(records.first().map_or(0, |record| record.revision.number()).to_le_bytes());
    batch.extend(length(records.len()).to_le_bytes());
    let bytes =
        |record: &Record| RECORD + record.key.as_bytes().len() + record.value.as_ref().map_or(0, Bytes::len);
    batch.extend(length(records.iter().map(bytes).sum()).to_le_bytes());
    for record in records {
        batch.extend(record.created.number().to_le_bytes());
        batch.extend(record.previous.number().to_le_bytes());
        batch.extend(length(record.key.as_bytes().len()).to_le_bytes());
        batch.extend(record.value.as_ref().map_or(DELETION, |value| length(value.len())).to_le_bytes());
        batch.extend(record.key.as_bytes());
        batch.extend(record.value.as_deref().unwrap_or_default());
    }
    let sum = crc32fast::hash(&batch[UNCHECKED..]);
    batch[MAGIC.len()..UNCHECKED].copy_from_slice(&sum.to_le_bytes());
    batch.resize(batch.len().next_multiple_of(BLOCK), 0);
    u64::from(length(batch.len()))
}

/// Converts a length to its format. A batch is bounded far below the largest length. If it were not, its checksum
/// would show it.
fn length(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(DELETION)
}

fn size(length: u32) -> usize {
    usize::try_from(length).unwrap_or(usize::MAX)
}

/// Returns all whole batches of the store in `bytes` with writes after `checkpointed`, in the order of the file.
pub(super) fn read_all(bytes: &[u8], store: u64, checkpointed: Revision) -> Result<Vec<Vec<Record>>, String> {
    let mut batches = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let header = batch_at(&bytes[at..]);
        // At other offsets it may be part of a value: the remains of a batch that is partly overwritten.
        if at == 0 && header.as_ref().is_some_and(|header| header.store != store) {
            return Err(
                "the journal beside it belongs to another store; move it away, or bring back its own".into(),
            );
        }
        let Some(header) = header.filter(|header| header.store == store) else {
            at += BLOCK;
            continue;
        };
        let end = at + HEADER + size(header.length);
        if header.first + u64::from(header.count) > checkpointed.number() + 1 {
            let mut fields = Fields { rest: &bytes[at + HEADER..end] };
            let revisions = (header.first..).take(size(header.count));
            let records: Option<Vec<Record>> =
                revisions.map(|revision| fields.record(Revision::new(revision))).collect();
            // The checksum is right, so the batch was written like this.
            batches.push(
                records
                    .ok_or_else(|| format!("its journal cannot be decoded at revision {}", header.first))?,
            );
        }
        at = end.next_multiple_of(BLOCK);
    }
    Ok(batches)
}

/// Header of a batch.
struct Header {
    sum: u32,
    store: u64,
    first: u64,
    count: u32,
    length: u32,
}

/// Returns the header of the batch at the start of `bytes`, if the batch is whole.
fn batch_at(bytes: &[u8]) -> Option<Header> {
    let header = bytes.get(..HEADER).filter(|header| header.starts_with(&MAGIC))?;
    let header = Fields { rest: &header[MAGIC.len()..] }.header()?;
    let checked = bytes.get(UNCHECKED..HEADER.checked_add(size(header.length))?)?;
    (crc32fast::hash(checked) == header.sum).then_some(header)
}

struct Fields<'b> {
    rest: &'b [u8],
}

impl<'b> Fields<'b> {
    fn bytes(&mut self, count: usize) -> Option<&'b [u8]> {
        let (found, rest) = self.rest.split_at_checked(count)?;
        self.rest = rest;
        Some(found)
    }

    fn short(&mut self) -> Option<u32> {
        self.bytes(4)?.try_into().ok().map(u32::from_le_bytes)
    }

    fn long(&mut self) -> Option<u64> {
        self.bytes(8)?.try_into().ok().map(u64::from_le_bytes)
    }

    fn header(&mut self) -> Option<Header> {
        let (sum, store, first) = (self.short()?, self.long()?, self.long()?);
        Some(Header { sum, store, first, count: self.short()?, length: self.short()? })
    }

    fn record(&mut self, revision: Revision) -> Option<Record> {
        let (created, previous) = (Revision::new(self.long()?), Revision::new(self.long()?));
        let (key, value) = (self.short()?, self.short()?);
        let key = std::str::from_utf8(self.bytes(size(key))?).ok()?;
        let key = Key::new(key).ok()?;
        let value = match value {
            DELETION => None,
            length => Some(Bytes::copy_from_slice(self.bytes(size(length))?)),
        };
        Some(Record { key, revision, created, previous, value })
    }
}
