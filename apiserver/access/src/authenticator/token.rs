//! The token that a request shows.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::header::{AUTHORIZATION, SEC_WEBSOCKET_PROTOCOL, UPGRADE};
use http::{HeaderMap, HeaderValue};

/// Browsers cannot set `Authorization` on a WebSocket: there the token is one of the subprotocols.
const PROTOCOL: &str = "base64url.bearer.authorization.k8s.io.";

/// What is shown.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Shown {
    Nothing,
    Token(String),
    /// Something that is meant for a token and can be none.
    NoToken,
}

/// Reads the token, and takes it away from among the subprotocols: one of the others is to be echoed.
pub(super) fn take(headers: &mut HeaderMap) -> Shown {
    bearer(headers).unwrap_or_else(|| of_web_socket(headers))
}

/// The word after the scheme, and nothing when a second space is there in its place.
fn bearer(headers: &HeaderMap) -> Option<Shown> {
    let shown = headers.get(AUTHORIZATION)?.as_bytes().trim_ascii();
    let mut words = shown.split(|byte| *byte == b' ');
    let is_token = words.next()?.eq_ignore_ascii_case(b"bearer");
    let token = words.next().filter(|token| is_token && !token.is_empty())?;
    Some(std::str::from_utf8(token).map_or(Shown::NoToken, |token| Shown::Token(token.to_owned())))
}

fn of_web_socket(headers: &mut HeaderMap) -> Shown {
    let is_web_socket =
        headers.get(UPGRADE).is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"websocket"));
    if !is_web_socket {
        return Shown::Nothing;
    }
    let all = headers.get_all(SEC_WEBSOCKET_PROTOCOL).iter().filter_map(|value| value.to_str().ok());
    let all = all.flat_map(|value| value.split(',')).map(|protocol| protocol.trim().to_owned());
    let (tokens, others): (Vec<String>, Vec<String>) =
        all.partition(|protocol| protocol.starts_with(PROTOCOL));
    let [encoded] = tokens.as_slice() else {
        return if tokens.is_empty() { Shown::Nothing } else { Shown::NoToken };
    };
    match HeaderValue::from_str(&others.join(",")) {
        Ok(left) if !others.is_empty() => headers.insert(SEC_WEBSOCKET_PROTOCOL, left),
        _ => return Shown::NoToken,
    };
    let decoded = encoded.strip_prefix(PROTOCOL).and_then(|encoded| URL_SAFE_NO_PAD.decode(encoded).ok());
    match decoded.and_then(|bytes| String::from_utf8(bytes).ok()) {
        Some(token) if token.is_empty() => Shown::Nothing,
        Some(token) => Shown::Token(token),
        None => Shown::NoToken,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_the_word_after_its_scheme() {
        let table: [(&[u8], Shown); 7] = [
            (b"Bearer abc", Shown::Token("abc".to_owned())),
            (b" bearer abc def", Shown::Token("abc".to_owned())),
            (b"Bearer ", Shown::Nothing),
            (b"Bearer  abc", Shown::Nothing),
            (b"Basic abc", Shown::Nothing),
            ("Bearer gü".as_bytes(), Shown::Token("gü".to_owned())),
            (b"Bearer g\xfc", Shown::NoToken),
        ];
        for (shown, expected) in table {
            let mut headers = HeaderMap::new();
            headers.insert(AUTHORIZATION, HeaderValue::from_bytes(shown).unwrap());
            assert_eq!(take(&mut headers), expected, "{shown:?}");
        }
    }

    #[test]
    fn a_browser_shows_its_token_among_the_subprotocols() {
        let shown = |upgrade: &str, protocols: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(UPGRADE, upgrade.parse().unwrap());
            headers.insert(SEC_WEBSOCKET_PROTOCOL, protocols.parse().unwrap());
            let shown = take(&mut headers);
            (shown, headers[SEC_WEBSOCKET_PROTOCOL].to_str().unwrap().to_owned())
        };
        let token = format!("{PROTOCOL}YWJj");
        let both = format!("base64.binary.k8s.io, {token}");
        let good = (Shown::Token("abc".to_owned()), "base64.binary.k8s.io".to_owned());
        assert_eq!(shown("WebSocket", &both), good);
        assert_eq!(shown("h2c", &both).0, Shown::Nothing);
        assert_eq!(shown("websocket", "base64.binary.k8s.io").0, Shown::Nothing);
        for bad in [token.clone(), format!("{both},{token}"), format!("a,{PROTOCOL}!")] {
            assert_eq!(shown("websocket", &bad).0, Shown::NoToken, "{bad}");
        }
    }
}
