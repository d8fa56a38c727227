//! Random texts of a login.

use aws_lc_rs::digest;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use crate::error::{ExitCode, Failure};

/// Returns a text with 256 random bits.
pub(super) fn random() -> Result<String, Failure> {
    let mut bytes = [0; 32];
    aws_lc_rs::rand::fill(&mut bytes)
        .map_err(|_| Failure::new(ExitCode::Failed, "the system has no random numbers"))?;
    Ok(URL_SAFE_NO_PAD.encode(bytes))
}

/// Returns the SHA-256 of a text, in base64url.
pub(super) fn hash(text: &str) -> String {
    URL_SAFE_NO_PAD.encode(digest::digest(&digest::SHA256, text.as_bytes()))
}
