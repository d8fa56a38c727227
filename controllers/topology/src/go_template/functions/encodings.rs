//! Encodings, checksums and URLs.

use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig, STANDARD};
use base64::{DecodeError, Engine, alphabet};

use super::super::value::Value;
use super::Parameter::Text;
use super::{Function, function, owned, text};

pub(super) const FUNCTIONS: &[Function] = &[
    function("b64enc", &[Text], |_, arguments| owned(STANDARD.encode(text(arguments, 0)))),
    function("b64dec", &[Text], |_, arguments| {
        owned(match from_base64(text(arguments, 0)) {
            Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
            // Upstream returns the error as the result.
            Err(error) => format!("illegal base64 data: {error}"),
        })
    }),
    function("b32enc", &[Text], |_, arguments| owned(base32(text(arguments, 0).as_bytes()))),
    function("b32dec", &[Text], |_, arguments| {
        let bytes = from_base32(text(arguments, 0));
        owned(bytes.map_or_else(
            || "illegal base32 data".to_owned(),
            |bytes| String::from_utf8_lossy(&bytes).into_owned(),
        ))
    }),
    function("sha1sum", &[Text], |_, arguments| {
        digest(&aws_lc_rs::digest::SHA1_FOR_LEGACY_USE_ONLY, text(arguments, 0))
    }),
    function("sha256sum", &[Text], |_, arguments| digest(&aws_lc_rs::digest::SHA256, text(arguments, 0))),
    function("sha512sum", &[Text], |_, arguments| digest(&aws_lc_rs::digest::SHA512, text(arguments, 0))),
    function("adler32sum", &[Text], |_, arguments| owned(adler32(text(arguments, 0)).to_string())),
];

/// As Go does, decodes a last character with bits that have no effect.
const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true),
);

/// Decodes base64. Line ends have no effect.
pub(super) fn from_base64(text: &str) -> Result<Vec<u8>, DecodeError> {
    let given: String = text.chars().filter(|letter| !matches!(letter, '\r' | '\n')).collect();
    LENIENT.decode(given)
}

fn digest(algorithm: &'static aws_lc_rs::digest::Algorithm, text: &str) -> Result<Value, String> {
    let bytes = aws_lc_rs::digest::digest(algorithm, text.as_bytes());
    owned(bytes.as_ref().iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Modulus of the checksum, as its specification (RFC 1950) has it.
const ADLER: u32 = 65_521;

fn adler32(text: &str) -> u32 {
    let (mut sum, mut sums) = (1, 0);
    for byte in text.bytes() {
        sum = (sum + u32::from(byte)) % ADLER;
        sums = (sums + sum) % ADLER;
    }
    (sums << 16) | sum
}

const DIGITS: &[u8; 32] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";

fn base32(bytes: &[u8]) -> String {
    let mut text = String::new();
    for chunk in bytes.chunks(5) {
        let value = (0..5).fold(0_u64, |value, index| {
            (value << 8) | u64::from(chunk.get(index).copied().unwrap_or_default())
        });
        let digits = (chunk.len() * 8).div_ceil(5);
        for index in 0..8 {
            let digit = usize::try_from((value >> (35 - 5 * index)) & 31).unwrap_or_default();
            let letter = DIGITS.get(digit).copied().map_or('=', char::from);
            text.push(if index < digits { letter } else { '=' });
        }
    }
    text
}

fn from_base32(text: &str) -> Option<Vec<u8>> {
    let plain: Vec<u8> = text.bytes().filter(|byte| !matches!(byte, b'\r' | b'\n')).collect();
    if !plain.len().is_multiple_of(8) {
        return None;
    }
    let mut bytes = Vec::new();
    for chunk in plain.chunks(8) {
        let digits: Vec<u8> = chunk.iter().copied().take_while(|byte| *byte != b'=').collect();
        if !matches!(digits.len(), 2 | 4 | 5 | 7 | 8) {
            return None;
        }
        let mut value = 0_u64;
        for index in 0..8 {
            let digit = match digits.get(index) {
                Some(byte) => DIGITS.iter().position(|digit| digit == byte)?,
                None => 0,
            };
            value = (value << 5) | u64::try_from(digit).ok()?;
        }
        let count = digits.len() * 5 / 8;
        bytes.extend(value.to_be_bytes().iter().skip(3).take(count));
    }
    Some(bytes)
}
