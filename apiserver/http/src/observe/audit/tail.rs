//! End of an audit file: the last whole line.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use memchr::memrchr;

use super::chain::{ChainLink, ChainedLine};

/// Bytes that are read at first: many lines of about 1 KiB. A longer line makes the reader double them.
const WINDOW: u64 = 64 * 1024;

/// End of a file.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Tail {
    /// Length of all whole lines. Unit: bytes.
    pub(super) whole: u64,
    /// Link of the last whole line, if it has one.
    pub(super) link: Option<ChainLink>,
}

impl Tail {
    /// Reads the end of a file.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub(super) fn read(path: &Path) -> std::io::Result<Self> {
        let mut file = File::open(path)?;
        let length = file.seek(SeekFrom::End(0))?;
        let mut window = WINDOW;
        loop {
            let begin = length.saturating_sub(window);
            file.seek(SeekFrom::Start(begin))?;
            let mut bytes = Vec::new();
            file.by_ref().take(window).read_to_end(&mut bytes)?;
            if let Some(tail) = Self::of(begin, &bytes) {
                return Ok(tail);
            }
            window = window.saturating_mul(2);
        }
    }

    /// Returns the end of a file, if its last whole line begins in these bytes.
    fn of(begin: u64, bytes: &[u8]) -> Option<Self> {
        let Some(end) = memrchr(b'\n', bytes) else {
            return (begin == 0).then_some(Self { whole: 0, link: None });
        };
        let lines = bytes.get(..end)?;
        let start = match memrchr(b'\n', lines) {
            Some(before) => before + 1,
            None if begin == 0 => 0,
            None => return None,
        };
        let line = std::str::from_utf8(lines.get(start..)?).ok();
        let link = line.and_then(ChainedLine::parse).map(|line| line.link());
        let whole = u64::try_from(end).unwrap_or(u64::MAX).saturating_add(begin).saturating_add(1);
        Some(Self { whole, link })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_whole_line_is_found_whatever_its_length() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("audit.log");
        let link = ChainLink { number: 5, code: [9; 32] };
        let line = |length: usize| {
            format!(
                "{{\"annotations\":{{\"capstan.dev/chain\":\"{link}\"}},\"a\":\"{}\"}}",
                "x".repeat(length)
            )
        };
        let long = line(300_000);
        let whole = |text: &str| u64::try_from(text.len()).unwrap();
        for (text, rest, expected) in [
            (String::new(), "", None),
            (String::new(), "{\"part", None),
            ("{}\n".to_owned(), "", None),
            (format!("{}\n", line(1)), "", Some(link)),
            (format!("{}\n", line(1)), "{\"part", Some(link)),
            (format!("{{}}\n{long}\n"), "{", Some(link)),
            (format!("{long}\n{{}}\n"), "", None),
        ] {
            std::fs::write(&path, format!("{text}{rest}")).unwrap();
            let tail = Tail::read(&path).unwrap();
            assert_eq!(tail, Tail { whole: whole(&text), link: expected }, "{}", text.len());
        }
    }
}
