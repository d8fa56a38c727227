//! Target for continue tokens: a decoded token is encoded to the same token.

use apiserver_machinery::continue_token::ContinueToken;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use crate::finding::{Verdict, demand};

/// Uses the input as a token, and as the content of a token.
pub(super) fn check_token(input: &[u8]) -> Verdict {
    check(&String::from_utf8_lossy(input))?;
    check(&URL_SAFE_NO_PAD.encode(input))
}

fn check(text: &str) -> Verdict {
    let token = match ContinueToken::decode(text) {
        Ok(token) => token,
        Err(refusal) => {
            let has_message = refusal.code == 400 && refusal.message.contains("continue token");
            return demand(has_message, || format!("{text:?} is refused with {refusal:?}"));
        }
    };
    let leads_out = token.start.split('/').any(|part| matches!(part, "" | "." | ".."));
    demand(!leads_out, || format!("{text:?} leads to {:?}", token.start))?;
    let again = ContinueToken::decode(&token.encode());
    demand(again.as_ref() == Ok(&token), || format!("{token:?} is written, and read as {again:?}"))
}
