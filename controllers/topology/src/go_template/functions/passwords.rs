//! Passwords that follow from a main password, by the algorithm of Master Password, version 0.

use aws_lc_rs::hmac;

use super::scrypt;

/// Start of each salt. It names the algorithm.
const SCOPE: &[u8] = b"com.lyndir.masterpassword";

/// Forms of passwords. Each letter of a form names a class of characters.
const FORMS: [(&str, &[&str]); 6] = [
    ("maximum", &["anoxxxxxxxxxxxxxxxxx", "axxxxxxxxxxxxxxxxxno"]),
    (
        "long",
        &[
            "CvcvnoCvcvCvcv",
            "CvcvCvcvnoCvcv",
            "CvcvCvcvCvcvno",
            "CvccnoCvcvCvcv",
            "CvccCvcvnoCvcv",
            "CvccCvcvCvcvno",
            "CvcvnoCvccCvcv",
            "CvcvCvccnoCvcv",
            "CvcvCvccCvcvno",
            "CvcvnoCvcvCvcc",
            "CvcvCvcvnoCvcc",
            "CvcvCvcvCvccno",
            "CvccnoCvccCvcv",
            "CvccCvccnoCvcv",
            "CvccCvccCvcvno",
            "CvcvnoCvccCvcc",
            "CvcvCvccnoCvcc",
            "CvcvCvccCvccno",
            "CvccnoCvcvCvcc",
            "CvccCvcvnoCvcc",
            "CvccCvcvCvccno",
        ],
    ),
    ("medium", &["CvcnoCvc", "CvcCvcno"]),
    ("short", &["Cvcn"]),
    ("basic", &["aaanaaan", "aannaaan", "aaannaaa"]),
    ("pin", &["nnnn"]),
];

/// Returns the characters of a class.
fn characters(class: u8) -> &'static [u8] {
    match class {
        b'C' => b"BCDFGHJKLMNPQRSTVWXYZ",
        b'v' => b"aeiou",
        b'c' => b"bcdfghjklmnpqrstvwxyz",
        b'a' => b"AEIOUaeiouBCDFGHJKLMNPQRSTVWXYZbcdfghjklmnpqrstvwxyz",
        b'n' => b"0123456789",
        b'o' => b"@&%?,=[]_:-+*$#!'^~;()/.",
        _ => b"AEIOUaeiouBCDFGHJKLMNPQRSTVWXYZbcdfghjklmnpqrstvwxyz0123456789!@#$%^&*()",
    }
}

/// Derives the password of a user for a site. An unknown form gives a message in place of the password, as upstream.
pub(super) fn derived(counter: u32, form: &str, password: &str, user: &str, site: &str) -> String {
    let Some((_, forms)) = FORMS.iter().find(|(name, _)| *name == form) else {
        return format!("cannot find password template {form}");
    };
    let key = scrypt::key(password.as_bytes(), &scoped(user, &[]), 32_768, 2);
    let key = hmac::Key::new(hmac::HMAC_SHA256, &key);
    let seed = hmac::sign(&key, &scoped(site, &counter.to_be_bytes()));
    let Some((first, further)) = seed.as_ref().split_first() else { return String::new() };
    let form = chosen(forms, *first).copied().unwrap_or_default();
    let letter =
        |(class, byte): (u8, &u8)| chosen(characters(class), *byte).map(|letter| char::from(*letter));
    form.bytes().zip(further).filter_map(letter).collect()
}

/// Returns the item of a list that a byte selects.
fn chosen<T>(items: &[T], byte: u8) -> Option<&T> {
    items.get(usize::from(byte).checked_rem(items.len())?)
}

/// Returns a name with the algorithm's name and its length before it.
fn scoped(name: &str, end: &[u8]) -> Vec<u8> {
    let length = u32::try_from(name.len()).unwrap_or(u32::MAX);
    [SCOPE, length.to_be_bytes().as_slice(), name.as_bytes(), end].concat()
}
