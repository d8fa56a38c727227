//! Output of commands to standard output.

use std::io::{self, ErrorKind, Write};

/// Writes to standard output. A closed pipe is no error: a reader such as `head` reads only the beginning.
pub(crate) fn print(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        written => written,
    }
}
