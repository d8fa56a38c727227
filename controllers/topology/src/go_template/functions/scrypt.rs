//! The key derivation function scrypt (RFC 7914), with blocks of 1024 bytes.

use std::num::NonZeroU32;

use aws_lc_rs::pbkdf2;

/// Block of Salsa20.
type Block = [u32; 16];

/// Number of blocks of Salsa20 that are mixed together: twice the parameter `r`, which is 8.
const BLOCKS: usize = 16;

/// Blocks that are mixed together.
type Mixed = [Block; BLOCKS];

/// Length of a block of Salsa20. Unit: bytes.
const BLOCK_LENGTH: usize = 64;

/// Derives a key of 64 bytes. `cost` is the parameter `N`, a power of two, and `lanes` is the parameter `p`. The function
/// needs `cost` times 1024 bytes of memory.
pub(super) fn key(password: &[u8], salt: &[u8], cost: usize, lanes: usize) -> [u8; 64] {
    let mut bytes = vec![0; lanes * BLOCKS * BLOCK_LENGTH];
    stretch(password, salt, &mut bytes);
    for lane in bytes.chunks_exact_mut(BLOCKS * BLOCK_LENGTH) {
        let mut mixed = from_bytes(lane);
        mix_with_memory(&mut mixed, cost);
        for (place, word) in lane.chunks_exact_mut(4).zip(mixed.iter().flatten()) {
            place.copy_from_slice(&word.to_le_bytes());
        }
    }
    let mut key = [0; 64];
    stretch(password, &bytes, &mut key);
    key
}

/// PBKDF2 with HMAC-SHA-256 and one iteration.
fn stretch(password: &[u8], salt: &[u8], output: &mut [u8]) {
    pbkdf2::derive(pbkdf2::PBKDF2_HMAC_SHA256, NonZeroU32::MIN, salt, password, output);
}

fn from_bytes(bytes: &[u8]) -> Mixed {
    let mut mixed = [[0; 16]; BLOCKS];
    for (word, bytes) in mixed.iter_mut().flatten().zip(bytes.as_chunks::<4>().0) {
        *word = u32::from_le_bytes(*bytes);
    }
    mixed
}

/// The function `scryptROMix`: fills a memory with the states of the mixing, and mixes again with states at positions that
/// depend on the content.
fn mix_with_memory(state: &mut Mixed, cost: usize) {
    let mut memory = Vec::with_capacity(cost);
    for _ in 0..cost {
        memory.push(*state);
        mix(state);
    }
    for _ in 0..cost {
        let [.., [low, ..]] = *state;
        let position = usize::try_from(low).unwrap_or_default() & (cost - 1);
        if let Some(earlier) = memory.get(position) {
            for (block, other) in state.iter_mut().zip(earlier) {
                add(block, other);
            }
        }
        mix(state);
    }
}

/// The function `scryptBlockMix`: the results at even positions come first.
fn mix(state: &mut Mixed) {
    let [.., mut last] = *state;
    let (mut even, mut odd) = ([[0; 16]; BLOCKS / 2], [[0; 16]; BLOCKS / 2]);
    let pairs = state.as_chunks::<2>().0;
    for (([first, second], even), odd) in pairs.iter().zip(&mut even).zip(&mut odd) {
        add(&mut last, first);
        salsa(&mut last);
        *even = last;
        add(&mut last, second);
        salsa(&mut last);
        *odd = last;
    }
    for (place, block) in state.iter_mut().zip(even.iter().chain(&odd)) {
        *place = *block;
    }
}

/// Adds the words of another block, without carries.
fn add(block: &mut Block, other: &Block) {
    for (word, other) in block.iter_mut().zip(other) {
        *word ^= other;
    }
}

/// Salsa20 with 8 rounds.
fn salsa(block: &mut Block) {
    let mut words = *block;
    for _ in 0..4 {
        quarter::<0, 4, 8, 12>(&mut words);
        quarter::<5, 9, 13, 1>(&mut words);
        quarter::<10, 14, 2, 6>(&mut words);
        quarter::<15, 3, 7, 11>(&mut words);
        quarter::<0, 1, 2, 3>(&mut words);
        quarter::<5, 6, 7, 4>(&mut words);
        quarter::<10, 11, 8, 9>(&mut words);
        quarter::<15, 12, 13, 14>(&mut words);
    }
    for (word, more) in block.iter_mut().zip(words) {
        *word = word.wrapping_add(more);
    }
}

/// Quarter of a round. The constants are positions below 16.
fn quarter<const A: usize, const B: usize, const C: usize, const D: usize>(words: &mut Block) {
    words[B] ^= words[A].wrapping_add(words[D]).rotate_left(7);
    words[C] ^= words[B].wrapping_add(words[A]).rotate_left(9);
    words[D] ^= words[C].wrapping_add(words[B]).rotate_left(13);
    words[A] ^= words[D].wrapping_add(words[C]).rotate_left(18);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hexadecimal(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// The vectors of RFC 7914, section 12, whose parameter `r` is 8.
    #[test]
    fn the_keys_are_those_of_the_vectors() {
        assert_eq!(
            hexadecimal(&key(b"password", b"NaCl", 1024, 16)),
            "fdbabe1c9d3472007856e7190d01e9fe7c6ad7cbc8237830e77376634b373162\
             2eaf30d92e22a3886ff109279d9830dac727afb94a83ee6d8360cbdfa2cc0640"
        );
        assert_eq!(
            hexadecimal(&key(b"pleaseletmein", b"SodiumChloride", 16_384, 1)),
            "7023bdcb3afd7348461c06cd81fd38ebfda8fbba904f8e3ea9b543f6545da1f2\
             d5432955613f0fcf62d49705242a9af9e61e85dc0d651e40dfcf017b45575887"
        );
    }
}
