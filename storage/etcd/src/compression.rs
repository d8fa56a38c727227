//! Values as they are in etcd: compressed with LZ4, which is read in less time than etcd takes for the bytes it saves.
//!
//! Shape: `capstan:lz4:v1:`, the value's length in four bytes, the least significant first, and one LZ4 block. What is
//! stored in no such form is the value itself, so that what was written before there was any is read as it was.

use std::borrow::Cow;

use bytes::Bytes;
use lz4_flex::block;

/// What a compressed value starts with.
const PREFIX: &[u8] = b"capstan:lz4:v1:";

/// Bytes of the length.
const LENGTH: usize = size_of::<u32>();

/// Values shorter than this are stored as they are: compressing them takes as long as etcd takes for what that saves. A
/// Machine has 1,500 bytes when it was created, and 5,600 with a status.
const SMALLEST: usize = 2048;

/// How many times as large as its block a value may be: no byte of a block stands for more than 255. So a block that
/// is damaged, or not ours, takes no more memory than that.
const MOST_PER_BYTE: usize = 255;

/// A compressed value that cannot be read. It shows nothing of it.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum DamagedError {
    /// It ends before its length does.
    #[error("a compressed value is cut off")]
    CutOff,
    /// It is not as long as it says, or no LZ4.
    #[error("a compressed value is damaged: {0}")]
    Block(String),
}

/// The bytes to store: compressed where that makes them fewer, or where they look as if they were already.
pub fn compress(value: Bytes) -> Bytes {
    let must = value.starts_with(PREFIX);
    let Ok(length) = u32::try_from(value.len()) else { return value };
    if value.len() < SMALLEST && !must {
        return value;
    }
    let start = PREFIX.len() + LENGTH;
    let mut stored = vec![0; start + block::get_maximum_output_size(value.len())];
    let Ok(compressed) = block::compress_into(&value, &mut stored[start..]) else { return value };
    if start + compressed >= value.len() && !must {
        return value;
    }
    stored[..PREFIX.len()].copy_from_slice(PREFIX);
    stored[PREFIX.len()..start].copy_from_slice(&length.to_le_bytes());
    stored.truncate(start + compressed);
    Bytes::from(stored)
}

/// The value behind stored bytes: these themselves where they are not compressed.
///
/// # Errors
/// `DamagedError`.
pub fn expand(stored: &[u8]) -> Result<Cow<'_, [u8]>, DamagedError> {
    let Some(rest) = stored.strip_prefix(PREFIX) else { return Ok(Cow::Borrowed(stored)) };
    let (length, compressed) = rest.split_first_chunk::<LENGTH>().ok_or(DamagedError::CutOff)?;
    let length = usize::try_from(u32::from_le_bytes(*length)).map_err(|_| DamagedError::CutOff)?;
    if length > compressed.len().saturating_mul(MOST_PER_BYTE) {
        return Err(DamagedError::CutOff);
    }
    let value =
        block::decompress(compressed, length).map_err(|error| DamagedError::Block(error.to_string()))?;
    if value.len() == length {
        Ok(Cow::Owned(value))
    } else {
        Err(DamagedError::Block(format!("{} bytes instead of {length}", value.len())))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn repeating() -> Bytes {
        Bytes::from(r#"{"f:lastTransitionTime":{},"f:message":{},"f:reason":{}}"#.repeat(40))
    }

    #[test]
    fn what_repeats_takes_less_room_and_is_read_as_it_was() {
        let stored = compress(repeating());
        assert!(
            stored.starts_with(b"capstan:lz4:v1:") && stored.len() < repeating().len() / 10,
            "{}",
            stored.len()
        );
        assert_eq!(expand(&stored).unwrap(), &repeating()[..]);
    }

    #[test]
    fn what_is_short_or_comes_out_no_shorter_is_stored_as_it_is() {
        let short = Bytes::from(r#"{"a":{}}"#.repeat(255));
        assert_eq!(compress(short.clone()), short);
        // Every three bytes are others.
        let noise: Bytes = (0..1000_u32)
            .flat_map(|number| (number.wrapping_mul(2_654_435_761) >> 8).to_le_bytes())
            .collect();
        assert_eq!(compress(noise.clone()), noise);
        assert_eq!(expand(&noise).unwrap(), &noise[..]);
    }

    #[test]
    fn what_looks_as_if_it_were_compressed_is_told_from_what_is() {
        for value in [Bytes::from_static(PREFIX), compress(repeating())] {
            let stored = compress(value.clone());
            assert_ne!(stored, value);
            assert_eq!(expand(&stored).unwrap(), &value[..]);
        }
    }

    #[test]
    fn what_was_cut_off_or_says_that_it_is_larger_than_it_can_be_is_refused() {
        let stored = compress(repeating());
        for end in PREFIX.len()..stored.len() {
            assert!(expand(&stored[..end]).is_err(), "{end}");
        }
        let mut large = stored.to_vec();
        large[PREFIX.len()..PREFIX.len() + LENGTH].copy_from_slice(&u32::MAX.to_le_bytes());
        assert_eq!(expand(&large), Err(DamagedError::CutOff));
        let mut shorter = stored.to_vec();
        shorter[PREFIX.len()] -= 1;
        assert!(matches!(expand(&shorter), Err(DamagedError::Block(_))));
    }

    proptest! {
        #[test]
        fn every_value_is_read_as_it_was(value in prop::collection::vec(0_u8..4, 0..4000)) {
            let value = Bytes::from([b"{".as_slice(), &value].concat());
            let stored = compress(value.clone());
            prop_assert_eq!(expand(&stored).unwrap(), &value[..]);
        }

        #[test]
        fn bytes_that_nobody_compressed_do_no_harm(
            bytes in prop::collection::vec(any::<u8>(), 0..200),
            length in 0_u32..60_000,
        ) {
            let _read = expand(&[PREFIX, &length.to_le_bytes(), &bytes].concat());
        }

        /// A value of another length is never taken for the one that was written.
        #[test]
        fn a_damaged_block_is_refused_or_as_long_as_it_says(
            at in any::<prop::sample::Index>(),
            byte in any::<u8>(),
        ) {
            let mut stored = compress(repeating()).to_vec();
            let start = PREFIX.len() + LENGTH;
            let at = start + at.index(stored.len() - start);
            stored[at] = byte;
            if let Ok(read) = expand(&stored) {
                prop_assert_eq!(read.len(), repeating().len());
            }
        }
    }
}
