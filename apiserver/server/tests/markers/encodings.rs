//! Encodings of a marker: the byte sequences by which an output can contain it.

use base64::Engine;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};

/// Shortest part of a marker that counts. A shorter one can appear by chance. Unit: bytes.
const SHORTEST_PART: usize = 12;

/// Returns the middle of a base64 text that is the same whatever stands around the secret. `shift` is the number of bytes
/// before the secret in its group of three.
fn aligned(secret: &[u8], shift: usize, encode: impl Fn(&[u8]) -> String) -> Vec<u8> {
    let text = encode(&[&vec![0; shift][..], secret].concat());
    let begin = (shift * 8).div_ceil(6);
    let end = (shift + secret.len()) * 8 / 6;
    text.as_bytes()[begin..end].to_vec()
}

fn base64(secret: &[u8]) -> Vec<Vec<u8>> {
    let standard = |bytes: &[u8]| STANDARD_NO_PAD.encode(bytes);
    let of_url = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
    (0..3).flat_map(|shift| [aligned(secret, shift, standard), aligned(secret, shift, of_url)]).collect()
}

fn each(secret: &[u8], encode: impl Fn(u8) -> String, between: &str) -> Vec<u8> {
    secret.iter().map(|byte| encode(*byte)).collect::<Vec<_>>().join(between).into_bytes()
}

fn percent(secret: &[u8], is_plain: impl Fn(u8) -> bool, is_upper: bool) -> Vec<u8> {
    let encode = |byte: u8| match byte {
        plain if is_plain(plain) => char::from(plain).to_string(),
        byte if is_upper => format!("%{byte:02X}"),
        byte => format!("%{byte:02x}"),
    };
    each(secret, encode, "")
}

/// Returns every encoding of a secret, with its name.
pub(crate) fn all(secret: &[u8]) -> Vec<(&'static str, Vec<u8>)> {
    let mut all = vec![
        ("raw", secret.to_vec()),
        ("hex", each(secret, |byte| format!("{byte:02x}"), "")),
        ("hex", each(secret, |byte| format!("{byte:02X}"), "")),
        ("decimal bytes", each(secret, |byte| byte.to_string(), ", ")),
        ("decimal bytes", each(secret, |byte| byte.to_string(), ",")),
        ("URL", percent(secret, |_| false, true)),
        ("URL", percent(secret, |_| false, false)),
        ("URL", percent(secret, |byte| byte.is_ascii_alphanumeric(), true)),
        ("URL", percent(secret, |byte| byte.is_ascii_alphanumeric(), false)),
        ("debug text", secret.escape_ascii().to_string().into_bytes()),
        ("JSON", String::from_utf8_lossy(secret).replace('/', "\\/").into_bytes()),
    ];
    for once in base64(secret) {
        all.extend(base64(&once).into_iter().map(|twice| ("base64 of base64", twice)));
        all.push(("base64", once));
    }
    if secret.len() >= 2 * SHORTEST_PART {
        let (first, second) = secret.split_at(secret.len() / 2);
        all.extend([("a half", first.to_vec()), ("a half", second.to_vec())]);
    }
    all
}
