//! Targets for the reader of backups: bytes as a file, and bytes as the content of frames that are sealed rightly.

use storage_backup::{BackupError, BackupKey, Header, Reader, Summary, Writer, check_complete};

use crate::finding::{Finding, Verdict, demand};

/// Key of all inputs. Its fingerprint is in the headers of the corpus.
const KEY: [u8; BackupKey::LENGTH] = [7; BackupKey::LENGTH];

/// Reads the input as a file. No input has the tag of a frame, so that only a refusal is right.
pub(super) fn file(input: &[u8]) -> Verdict {
    let whole = check_complete(&mut { input });
    let sealed = Reader::open(input, &BackupKey::new(KEY)).and_then(|reader| reader.verify(|_| ()));
    if let Ok((header, size)) = &whole {
        demand(*size == length(input), || format!("{size} bytes of {} are complete", input.len()))?;
        let peeked = Header::peek(&mut { input }).map_err(|error| Finding(error.to_string()))?;
        demand(peeked == *header, || format!("{header:?} is peeked as {peeked:?}"))?;
    }
    demand(sealed.is_err(), || format!("a file without a seal is read: {sealed:?}"))
}

fn length(input: &[u8]) -> u64 {
    u64::try_from(input.len()).unwrap_or_default()
}

/// Reads the input as the content of frames: each begins with a class (`L`: the last one) and a length in two bytes. An
/// input that is accepted has the same summary when it is written again.
pub(super) fn frames(input: &[u8]) -> Verdict {
    let broken = |error: BackupError| Finding(format!("the file cannot be written: {error}"));
    let file = sealed(input).map_err(broken)?;
    let mut entries = Vec::new();
    let key = BackupKey::new(KEY);
    let read = Reader::open(file.as_slice(), &key)
        .and_then(|reader| reader.verify(|entry| entries.push(entry.clone())));
    let Ok((header, summary)) = read else { return Ok(()) };
    let again = rewritten(&header, &entries).map_err(broken)?;
    demand(again == summary, || format!("{summary:?} is written again as {again:?}"))
}

/// Returns a file with these frames.
fn sealed(mut input: &[u8]) -> Result<Vec<u8>, BackupError> {
    let mut writer = Writer::new(Vec::new(), &Header::default(), &BackupKey::new(KEY))?;
    while let Some((&[class, low, high], rest)) = input.split_first_chunk() {
        let size = usize::from(u16::from_le_bytes([low, high])).min(rest.len());
        let (content, after) = rest.split_at(size);
        writer.add_raw(class == b'L', content.to_vec())?;
        input = after;
    }
    Ok(std::mem::take(writer.written()))
}

fn rewritten(header: &Header, entries: &[storage_contract::Entry]) -> Result<Summary, BackupError> {
    let mut writer = Writer::new(Vec::new(), header, &BackupKey::new(KEY))?;
    for entry in entries {
        writer.add(entry)?;
    }
    writer.finish().map(|(_, summary)| summary)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_is_a_whole_file_with_two_entries_and_one_byte_less_is_none() {
        let seed = include_bytes!("../../corpus/backup-frames/whole");
        let read = |input: &[u8]| {
            let file = sealed(input).unwrap();
            Reader::open(file.as_slice(), &BackupKey::new(KEY)).and_then(|reader| reader.verify(|_| ()))
        };
        assert_eq!(read(seed).unwrap().1.entries, 2);
        assert!(read(&seed[..seed.len() - 1]).is_err());
    }
}
