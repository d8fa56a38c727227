//! Frames: the sealed parts of a backup file.
//!
//! Shape: one byte for the class, four bytes for the length of the rest (the least significant first), and the sealed
//! content with its tag.

use std::io::{ErrorKind, Read, Write};

use aws_lc_rs::aead::{Aad, LessSafeKey, NONCE_LEN, Nonce};
use aws_lc_rs::digest::{SHA256, digest};

use crate::key::SALT;
use crate::{BackupError, BackupKey};

/// Largest frame, with its class and length.
const LARGEST: usize = 64 * 1024;

/// Bytes of the class and the length of a frame.
const START: usize = 5;

/// Bytes around the content: class, length, tag, and the form of the content.
const AROUND: usize = 64;

/// Most bytes of content.
pub(crate) const CONTENT: usize = LARGEST - AROUND;

/// Bytes of the salt in a nonce.
const SALT_IN_NONCE: usize = 7;

/// Class of a frame. It is a part of the nonce.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Class {
    /// Entries follow.
    Entries,
    /// The last frame of the file.
    Last,
}

impl Class {
    const fn byte(self) -> u8 {
        match self {
            Self::Entries => 0,
            Self::Last => 1,
        }
    }
}

/// Cipher of one file, which counts the frames.
pub(crate) struct Frames {
    cipher: LessSafeKey,
    salt: [u8; SALT_IN_NONCE],
    /// Digest of the header, which each frame authenticates.
    header: Vec<u8>,
    /// Number of the next frame.
    pub(crate) next: u32,
}

impl Frames {
    pub(crate) fn new(key: &BackupKey, salt: &[u8; SALT], header: &[u8]) -> Result<Self, BackupError> {
        let cipher = key.cipher(salt)?;
        let mut short = [0; SALT_IN_NONCE];
        short.copy_from_slice(&salt[..SALT_IN_NONCE]);
        let header = digest(&SHA256, header).as_ref().to_vec();
        Ok(Self { cipher, salt: short, header, next: 0 })
    }

    /// Returns the nonce of the next frame.
    fn nonce(&self, class: Class) -> Nonce {
        let mut nonce = [0; NONCE_LEN];
        let (salt, rest) = nonce.split_at_mut(SALT_IN_NONCE);
        salt.copy_from_slice(&self.salt);
        let (number, last) = rest.split_at_mut(size_of::<u32>());
        number.copy_from_slice(&self.next.to_be_bytes());
        last.fill(class.byte());
        Nonce::assume_unique_for_key(nonce)
    }

    /// Seals and writes a frame.
    pub(crate) fn write(
        &mut self,
        out: &mut impl Write,
        class: Class,
        mut content: Vec<u8>,
    ) -> Result<(), BackupError> {
        let following = self.next.checked_add(1);
        let following = following.ok_or_else(|| BackupError::Unwritable("it has too many frames".into()))?;
        let (nonce, aad) = (self.nonce(class), Aad::from(self.header.as_slice()));
        let sealed = self.cipher.seal_in_place_append_tag(nonce, aad, &mut content);
        sealed.map_err(|_| BackupError::Crypto)?;
        let length = u32::try_from(content.len()).map_err(|_| BackupError::Crypto)?;
        out.write_all(&[class.byte()])?;
        out.write_all(&length.to_le_bytes())?;
        out.write_all(&content)?;
        self.next = following;
        Ok(())
    }

    /// Reads and opens the next frame.
    pub(crate) fn read(&mut self, input: &mut impl Read) -> Result<(Class, Vec<u8>), BackupError> {
        let (class, length) = read_start(input, self.next)?;
        let mut content = vec![0; length];
        fill(input, &mut content, self.next)?;
        let (nonce, aad) = (self.nonce(class), Aad::from(self.header.as_slice()));
        let opened = self.cipher.open_in_place(nonce, aad, &mut content).map(|plain| plain.len());
        let changed = || "its content, its position or the header of the file was changed".to_owned();
        let length = opened.map_err(|_| self.damaged(changed()))?;
        content.truncate(length);
        self.next = self.next.checked_add(1).ok_or_else(|| self.damaged("it has no number".to_owned()))?;
        Ok((class, content))
    }

    pub(crate) fn damaged(&self, detail: String) -> BackupError {
        BackupError::Damaged { frame: self.next, detail }
    }
}

/// Skips all frames to the end of a file. Returns their size.
pub(crate) fn skip_all(input: &mut impl Read) -> Result<u64, BackupError> {
    let (mut frame, mut size) = (0, 0_u64);
    loop {
        let (class, length) = read_start(input, frame)?;
        fill(input, &mut vec![0; length], frame)?;
        size = size.saturating_add(u64::try_from(START + length).unwrap_or_default());
        if class == Class::Last {
            break;
        }
        frame = frame.saturating_add(1);
    }
    if input.read(&mut [0])? > 0 {
        let detail = "the file goes on after its last frame".to_owned();
        return Err(BackupError::Damaged { frame, detail });
    }
    Ok(size)
}

/// Reads the class and the length of a frame.
fn read_start(input: &mut impl Read, frame: u32) -> Result<(Class, usize), BackupError> {
    let mut start = [0; START];
    fill(input, &mut start, frame)?;
    let [class, length @ ..] = start;
    let damaged = |detail| BackupError::Damaged { frame, detail };
    let class = match class {
        0 => Class::Entries,
        1 => Class::Last,
        other => return Err(damaged(format!("its class is {other}"))),
    };
    let length = usize::try_from(u32::from_le_bytes(length)).unwrap_or(usize::MAX);
    if length > LARGEST {
        return Err(damaged(format!("its length is {length} bytes")));
    }
    Ok((class, length))
}

fn fill(input: &mut impl Read, bytes: &mut [u8], frame: u32) -> Result<(), BackupError> {
    input.read_exact(bytes).map_err(|error| match error.kind() {
        ErrorKind::UnexpectedEof => BackupError::CutOff { frames: frame },
        _ => error.into(),
    })
}
