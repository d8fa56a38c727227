//! Passwords, encrypted texts and certificates, as far as the result follows from the arguments.

use std::rc::Rc;

use aws_lc_rs::cipher::{AES_256, DecryptingKey, DecryptionContext, UnboundCipherKey};
use aws_lc_rs::iv::FixedLength;

use super::super::certificate::Certificate;
use super::super::value::{Context, Outcome, Value};
use super::Parameter::{Text, Uint32};
use super::encodings::from_base64;
use super::{Function, function, integer, owned, passwords, text};

pub(super) const FUNCTIONS: &[Function] = &[
    function("buildCustomCert", &[Text, Text], build_certificate),
    function("decryptAES", &[Text, Text], |_, arguments| {
        owned(decrypted(text(arguments, 0), text(arguments, 1))?)
    }),
    function("derivePassword", &[Uint32, Text, Text, Text, Text], derive_password),
];

/// Work of reading one private key, in bytes.
const KEY_WORK: usize = 64 * 20_000;

/// Work of one password, in bytes. A template can derive four.
const PASSWORD_WORK: usize = 64 * 240_000;

/// Length of a block of AES. Unit: bytes.
const BLOCK: usize = 16;

/// Length of the key. Unit: bytes.
const KEY: usize = 32;

fn build_certificate(context: &Context, arguments: &[Value]) -> Outcome<Value> {
    context.charge(KEY_WORK)?;
    let decoded = |index: usize, what: &str| {
        let bytes = from_base64(text(arguments, index)).map_err(|_| format!("{what} is not in base64"))?;
        String::from_utf8(bytes).map_err(|_| format!("{what} is no text"))
    };
    let (certificate, key) = (decoded(0, "the certificate")?, decoded(1, "the private key")?);
    Ok(Value::Certificate(Rc::new(Certificate::checked(&certificate, &key)?)))
}

fn derive_password(context: &Context, arguments: &[Value]) -> Outcome<Value> {
    context.charge(PASSWORD_WORK)?;
    let counter = u32::try_from(integer(arguments, 0)).map_err(|_| "the counter is too large")?;
    let [kind, password, user, site] = [1, 2, 3, 4].map(|index| text(arguments, index));
    owned(passwords::derived(counter, kind, password, user, site))
}

/// Decrypts a text of Sprig's `encryptAES`: AES-256 in the mode CBC, after 16 random bytes. The key is the password, cut
/// off or filled with zeros.
fn decrypted(password: &str, encrypted: &str) -> Outcome<String> {
    if encrypted.is_empty() {
        return Ok(String::new());
    }
    let bytes = from_base64(encrypted).map_err(|_| "the encrypted text is not in base64")?;
    let (vector, body) = bytes
        .split_first_chunk::<BLOCK>()
        .filter(|(_, body)| !body.is_empty() && body.len().is_multiple_of(BLOCK))
        .ok_or("the encrypted text is cut off: its length is no multiple of 16 bytes")?;
    let mut key = [0; KEY];
    key.iter_mut().zip(password.bytes()).for_each(|(place, byte)| *place = byte);
    let mut body = body.to_vec();
    let failed = |_| "AES does not decrypt the text";
    let key = UnboundCipherKey::new(&AES_256, &key).and_then(DecryptingKey::cbc).map_err(failed)?;
    key.decrypt(&mut body, DecryptionContext::Iv128(FixedLength::from(*vector))).map_err(failed)?;
    let wrong = "the password is not the one that encrypted the text";
    // The last byte is the number of bytes that fill the last block.
    let filling = usize::from(body.last().copied().unwrap_or_default());
    body.truncate(body.len().checked_sub(filling).ok_or(wrong)?);
    String::from_utf8(body).map_err(|_| wrong.to_owned())
}
