//! Compression of values in etcd with LZ4, which is decompressed in less time than etcd takes for the bytes it saves.
//!
//! Format: `capstan:lz4:v1:`, the value's length in four bytes, the least significant first, and one LZ4 block.
//! Stored bytes of any other form are the value itself, so that values from before compression are still read.

use std::borrow::Cow;

use bytes::Bytes;
use lz4_flex::block;

/// Prefix of a compressed value.
const PREFIX: &[u8] = b"capstan:lz4:v1:";

/// Bytes of the length.
const LENGTH: usize = size_of::<u32>();

/// Size below which values are stored uncompressed: compressing them takes as long as etcd takes for the saved bytes.
/// A Machine has 1,500 bytes after its creation, and 5,600 with a status.
const SMALLEST: usize = 2048;

/// Largest ratio of a value to its block: no byte of a block stands for more than 255. So a block that is damaged, or
/// of another program, takes no more memory than that.
const MOST_PER_BYTE: usize = 255;

/// Error of a compressed value that cannot be read. It shows nothing of the value.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum DamagedError {
    /// The value ends before its length is complete.
    #[error("a compressed value is cut off")]
    CutOff,
    /// The value's length differs from its header, or the block is not LZ4.
    #[error("a compressed value is damaged: {0}")]
    Block(String),
}

/// Returns the bytes to store: compressed where that is shorter, or where they look like compressed ones.
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

/// Returns the value of stored bytes: the bytes themselves where they are not compressed.
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
    fn a_repetitive_value_is_compressed_and_read_back_unchanged() {
        let stored = compress(repeating());
        assert!(
            stored.starts_with(b"capstan:lz4:v1:") && stored.len() < repeating().len() / 10,
            "{}",
            stored.len()
        );
        assert_eq!(expand(&stored).unwrap(), &repeating()[..]);
    }

    #[test]
    fn short_or_incompressible_values_are_stored_uncompressed() {
        let short = Bytes::from(r#"{"a":{}}"#.repeat(255));
        assert_eq!(compress(short.clone()), short);
        // The bytes do not repeat.
        let noise: Bytes = (0..1000_u32)
            .flat_map(|number| (number.wrapping_mul(2_654_435_761) >> 8).to_le_bytes())
            .collect();
        assert_eq!(compress(noise.clone()), noise);
        assert_eq!(expand(&noise).unwrap(), &noise[..]);
    }

    #[test]
    fn a_value_that_looks_compressed_is_read_back_unchanged() {
        for value in [Bytes::from_static(PREFIX), compress(repeating())] {
            let stored = compress(value.clone());
            assert_ne!(stored, value);
            assert_eq!(expand(&stored).unwrap(), &value[..]);
        }
    }

    #[test]
    fn truncated_values_and_impossible_lengths_are_refused() {
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
        fn every_value_is_read_back_unchanged(value in prop::collection::vec(0_u8..4, 0..4000)) {
            let value = Bytes::from([b"{".as_slice(), &value].concat());
            let stored = compress(value.clone());
            prop_assert_eq!(expand(&stored).unwrap(), &value[..]);
        }

        #[test]
        fn arbitrary_bytes_cause_no_panic(
            bytes in prop::collection::vec(any::<u8>(), 0..200),
            length in 0_u32..60_000,
        ) {
            let _read = expand(&[PREFIX, &length.to_le_bytes(), &bytes].concat());
        }

        /// A value of another length is never taken for the one that was written.
        #[test]
        fn a_damaged_block_is_refused_or_has_the_recorded_length(
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
