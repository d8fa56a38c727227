//! Body of an upload: a file, or a part of it, that is read while it is sent.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;
use std::pin::Pin;
use std::task::{Context, Poll};

use anyhow::Context as _;
use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

/// Bytes of one frame.
const FRAME: usize = 64 * 1024;

/// Part of a file.
#[derive(Debug, Clone, Copy)]
pub(super) struct FilePart<'f> {
    pub(super) path: &'f Path,
    /// Position of the first byte.
    pub(super) start: u64,
    /// Number of bytes.
    pub(super) size: u64,
}

/// Part of a file as a body.
#[derive(Debug)]
pub(super) struct FileBody {
    file: File,
    left: u64,
}

impl FileBody {
    pub(super) fn open(part: FilePart<'_>) -> anyhow::Result<Self> {
        let named = || format!("{}: cannot be read", part.path.display());
        let mut file = File::open(part.path).with_context(named)?;
        file.seek(SeekFrom::Start(part.start)).with_context(named)?;
        Ok(Self { file, left: part.size })
    }

    pub(super) const fn size(&self) -> u64 {
        self.left
    }
}

impl Body for FileBody {
    type Data = Bytes;
    type Error = std::io::Error;

    /// Reads without waiting: the file was written just now, so that the system has it in memory.
    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, std::io::Error>>> {
        if self.left == 0 {
            return Poll::Ready(None);
        }
        let size = usize::try_from(self.left).map_or(FRAME, |left| left.min(FRAME));
        let mut bytes = vec![0; size];
        if let Err(error) = self.file.read_exact(&mut bytes) {
            return Poll::Ready(Some(Err(error)));
        }
        self.left = self.left.saturating_sub(u64::try_from(size).unwrap_or_default());
        Poll::Ready(Some(Ok(Frame::data(bytes.into()))))
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}
