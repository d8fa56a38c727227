//! What a command prints.

use std::io::{self, ErrorKind, Write};

/// Writes to standard output. Who reads only the beginning, as `head` does, has what it wanted.
pub(crate) fn print(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        written => written,
    }
}
