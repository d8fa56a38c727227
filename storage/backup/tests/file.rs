//! Tests of backup files: complete, damaged, cut off, reordered, and with a wrong key.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::io::{Error, ErrorKind, Write};

use bytes::Bytes;
use storage_backup::{BackupError, BackupKey, Header, Reader, Summary, Writer};
use storage_contract::{Entry, Key, Revision};

/// Bytes before the content of a frame: class and length.
const START: usize = 5;

/// Backup of an embedded store that release 0.1.0 has written, with the backup key `key(7)`. It stays as it is.
const OF_RELEASE: &[u8] = include_bytes!("release-0.1.0.capstan-backup");

fn header() -> Header {
    Header {
        name: "prod".to_owned(),
        created: "2026-11-27T20:15:00Z".to_owned(),
        program: "0.1.0".to_owned(),
        store: "etcd".to_owned(),
        incarnation: "9f0c".to_owned(),
        offset: 300,
        revision: Revision::new(4_200),
        form: 3,
        encryption_keys: vec!["0a1b2c3d".to_owned(), "ffffffff".to_owned()],
        backup_key: String::new(),
        keys: "00ff".to_owned(),
    }
}

fn entry(index: u64) -> Entry {
    // Some values compress, and one is larger than a frame.
    let value = match index {
        7 => noise(200_000),
        _ if index.is_multiple_of(2) => noise(900),
        _ => format!(r#"{{"name":"{index}","text":"{}"}}"#, "abc".repeat(300)).into_bytes(),
    };
    let key = Key::new(format!("/capstan/core/secrets/team/s{index:04}")).unwrap();
    let (created, modified) = (Revision::new(index + 1), Revision::new(2 * index + 1));
    Entry { key, value: Bytes::from(value), modified, created }
}

/// Bytes that do not compress.
fn noise(length: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()[0]
    };
    std::iter::repeat_with(next).take(length).collect()
}

fn key(byte: u8) -> BackupKey {
    BackupKey::new([byte; BackupKey::LENGTH])
}

fn written(entries: u64) -> (Vec<u8>, Summary) {
    let mut writer = Writer::new(Vec::new(), &header(), &key(1)).unwrap();
    for index in 0..entries {
        writer.add(&entry(index)).unwrap();
    }
    writer.finish().unwrap()
}

fn read(file: &[u8], key: &BackupKey) -> Result<(Header, Summary, Vec<Entry>), BackupError> {
    let mut entries = Vec::new();
    let (header, summary) = Reader::open(file, key)?.verify(|entry| entries.push(entry.clone()))?;
    Ok((header, summary, entries))
}

/// Returns the offsets of the frames, and the end of the file.
fn frames(file: &[u8]) -> Vec<usize> {
    let mut at = file.windows(2).position(|two| two == b"\n\n").unwrap() + 2;
    let mut offsets = vec![at];
    while at < file.len() {
        let length = u32::from_le_bytes(file[at + 1..at + START].try_into().unwrap());
        at += START + usize::try_from(length).unwrap();
        offsets.push(at);
    }
    offsets
}

#[test]
fn a_file_is_read_as_it_was_written() {
    for count in [0, 1, 200] {
        let (file, summary) = written(count);
        let (read_header, read_summary, entries) = read(&file, &key(1)).unwrap();
        assert_eq!(read_header, Header { backup_key: key(1).fingerprint(), ..header() });
        assert_eq!((read_summary, read_summary.entries), (summary, count));
        assert_eq!(entries, (0..count).map(entry).collect::<Vec<_>>());
        let offsets = frames(&file);
        assert!(offsets.windows(2).all(|two| two[1] - two[0] <= 64 * 1024), "{offsets:?}");
        assert!(count < 200 || offsets.len() > 5, "{offsets:?}");
    }
    let (first, second) = (written(3).0, written(3).0);
    assert_ne!(first[frames(&first)[0]..], second[frames(&second)[0]..], "each file has its own key");
}

#[test]
fn bk_08_a_file_of_an_earlier_release_is_read() {
    let (header, summary, entries) = read(OF_RELEASE, &key(7)).unwrap();
    assert_eq!((header.program.as_str(), header.store.as_str(), header.form), ("0.1.0", "embedded", 3));
    assert_eq!((header.revision, summary.entries), (Revision::new(51), 42));
    let value = |name: &str| {
        let found = entries.iter().find(|entry| entry.key.as_str() == name);
        found.unwrap_or_else(|| panic!("{name} is missing")).value.clone()
    };
    assert!(value("/capstan/core/configmaps/default/words").starts_with(b"{"), "a value as it was stored");
    assert!(value("/capstan/core/secrets/default/sealed").starts_with(b"k8s:enc:aesgcm:v1:"), "a sealed one");
}

#[test]
fn the_header_is_readable_without_the_key_and_no_value_is() {
    let (file, _) = written(20);
    let peeked = Header::peek(&mut file.as_slice()).unwrap();
    assert_eq!((peeked.backup_key, peeked.revision), (key(1).fingerprint(), Revision::new(4_200)));
    let contains = |text: &[u8]| file.windows(text.len()).any(|window| window == text);
    assert!(contains(b"capstan-backup 1\n") && !contains(b"abcabc") && !contains(b"secrets"));
}

#[test]
fn a_wrong_key_is_named_and_opens_nothing() {
    let (file, _) = written(3);
    let error = read(&file, &key(2)).unwrap_err();
    let [expected, found] = [key(1), key(2)].map(|key| key.fingerprint());
    assert!(
        matches!(&error, BackupError::WrongKey { expected: e, found: f } if *e == expected && *f == found),
        "{error}"
    );
    // The fingerprint alone is no proof.
    let text = String::from_utf8_lossy(&file[..frames(&file)[0]]).replace(&expected, &found);
    let forged = [text.as_bytes(), &file[frames(&file)[0]..]].concat();
    assert!(matches!(read(&forged, &key(2)), Err(BackupError::Damaged { frame: 0, .. })));
}

#[test]
fn tm_16_a_flipped_bit_anywhere_is_noticed() {
    let (file, _) = written(200);
    let offsets = frames(&file);
    let (begin, last) = (offsets[0], offsets[offsets.len() - 2]);
    // Each byte of the header and of the last frame; class, length, content and tag of the others.
    let mut places: Vec<usize> = (0..begin).chain(last..file.len()).collect();
    for two in offsets.windows(2) {
        places.extend([0, 1, 4, START, START + 40].map(|at| two[0] + at));
        places.extend([two[1] - 1, two[1] - 17, usize::midpoint(two[0], two[1])]);
    }
    for at in places {
        for bit in [0, 3, 7] {
            let mut flipped = file.clone();
            flipped[at] ^= 1 << bit;
            let result = read(&flipped, &key(1));
            assert!(result.is_err(), "byte {at} bit {bit}: {:?}", result.map(|found| found.1));
        }
    }
}

#[test]
fn a_cut_file_is_noticed_at_each_length() {
    let (file, _) = written(40);
    let offsets = frames(&file);
    for at in (0..offsets[0]).chain(offsets.iter().flat_map(|at| [at - 1, *at, at + 3])) {
        if at < file.len() {
            let error = read(&file[..at], &key(1)).unwrap_err();
            let is_expected = matches!(error, BackupError::CutOff { .. } | BackupError::NotABackup(_));
            assert!(is_expected, "{at}: {error}");
        }
    }
    let more = [&file[..], b"x"].concat();
    assert!(read(&more, &key(1)).unwrap_err().to_string().contains("goes on after its last frame"));
}

#[test]
fn tm_16_frames_cannot_be_moved_repeated_left_out_or_exchanged() {
    let (file, _) = written(300);
    let (other, _) = written(300);
    let parts = |file: &[u8]| {
        let offsets = frames(file);
        let frames: Vec<Vec<u8>> = offsets.windows(2).map(|two| file[two[0]..two[1]].to_vec()).collect();
        (file[..offsets[0]].to_vec(), frames)
    };
    let (begin, good) = parts(&file);
    let (other_begin, others) = parts(&other);
    let joined = |begin: &[u8], frames: &[Vec<u8>]| [begin, &frames.concat()].concat();
    assert!(read(&joined(&begin, &good), &key(1)).is_ok());
    let mut swapped = good.clone();
    swapped.swap(0, 1);
    let mut repeated = good.clone();
    repeated.insert(1, good[0].clone());
    let mut without_one = good.clone();
    without_one.remove(1);
    let mut exchanged = good.clone();
    exchanged[2].clone_from(&others[2]);
    let cut_with_end = [good[0].clone(), good.last().unwrap().clone()];
    for frames in [&swapped[..], &repeated, &without_one, &exchanged, &cut_with_end] {
        assert!(matches!(read(&joined(&begin, frames), &key(1)), Err(BackupError::Damaged { .. })));
    }
    assert!(read(&joined(&other_begin, &good), &key(1)).is_err(), "an old header with a new body");
}

#[test]
fn another_format_and_another_file_are_refused() {
    let (file, _) = written(1);
    let text = String::from_utf8_lossy(&file).into_owned();
    let newer = text.replacen("capstan-backup 1", "capstan-backup 2", 1);
    let error = read(newer.as_bytes(), &key(1)).unwrap_err();
    assert!(error.to_string().contains("has format 2, and this release reads format 1"), "{error}");
    for other in [&b""[..], b"PK\x03\x04 something else entirely", b"capstan-backup 1\n"] {
        assert!(matches!(read(other, &key(1)), Err(BackupError::NotABackup(_))));
    }
    let bad = Header { name: "a\nb".to_owned(), ..header() };
    assert!(matches!(Writer::new(Vec::new(), &bad, &key(1)), Err(BackupError::Unwritable(_))));
}

/// Output that has room for so many bytes.
#[derive(Debug)]
struct Disk(usize);

impl Write for Disk {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if self.0 < bytes.len() {
            return Err(Error::new(ErrorKind::StorageFull, "no space left on device"));
        }
        self.0 -= bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn bk_08_a_full_disk_at_each_frame_is_reported() {
    let write = |room: usize| {
        let mut writer = Writer::new(Disk(room), &header(), &key(1))?;
        for index in 0..200 {
            writer.add(&entry(index))?;
        }
        writer.finish().map(|_| ())
    };
    let (file, _) = written(200);
    for at in [0].into_iter().chain(frames(&file)) {
        for room in [at, at + 1] {
            let result = write(room);
            if room < file.len() {
                let error = result.unwrap_err();
                assert!(error.to_string().contains("no space left"), "{room}: {error}");
            } else {
                result.unwrap();
            }
        }
    }
}
