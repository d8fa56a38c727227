//! Bearer token of a request.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::header::{AUTHORIZATION, SEC_WEBSOCKET_PROTOCOL, UPGRADE};
use http::{HeaderMap, HeaderValue};

/// Prefix of the WebSocket subprotocol that carries the token, because browsers cannot set `Authorization` on a
/// WebSocket.
const PROTOCOL: &str = "base64url.bearer.authorization.k8s.io.";

/// Token that a request shows.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Credential {
    None,
    Token(String),
    /// Value that is sent as a token and cannot be one.
    Malformed,
}

/// Reads the token, and removes it from the subprotocols: the response repeats one of the others.
pub(super) fn take(headers: &mut HeaderMap) -> Credential {
    bearer(headers).unwrap_or_else(|| of_web_socket(headers))
}

/// Reads the word after the scheme. After a second space it is empty, and so no token.
fn bearer(headers: &HeaderMap) -> Option<Credential> {
    let shown = headers.get(AUTHORIZATION)?.as_bytes().trim_ascii();
    let mut words = shown.split(|byte| *byte == b' ');
    let is_token = words.next()?.eq_ignore_ascii_case(b"bearer");
    let token = words.next().filter(|token| is_token && !token.is_empty())?;
    Some(
        std::str::from_utf8(token).map_or(Credential::Malformed, |token| Credential::Token(token.to_owned())),
    )
}

fn of_web_socket(headers: &mut HeaderMap) -> Credential {
    let is_web_socket =
        headers.get(UPGRADE).is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"websocket"));
    if !is_web_socket {
        return Credential::None;
    }
    let all = headers.get_all(SEC_WEBSOCKET_PROTOCOL).iter().filter_map(|value| value.to_str().ok());
    let all = all.flat_map(|value| value.split(',')).map(|protocol| protocol.trim().to_owned());
    let (tokens, others): (Vec<String>, Vec<String>) =
        all.partition(|protocol| protocol.starts_with(PROTOCOL));
    let [encoded] = tokens.as_slice() else {
        return if tokens.is_empty() { Credential::None } else { Credential::Malformed };
    };
    match HeaderValue::from_str(&others.join(",")) {
        Ok(left) if !others.is_empty() => headers.insert(SEC_WEBSOCKET_PROTOCOL, left),
        _ => return Credential::Malformed,
    };
    let decoded = encoded.strip_prefix(PROTOCOL).and_then(|encoded| URL_SAFE_NO_PAD.decode(encoded).ok());
    match decoded.and_then(|bytes| String::from_utf8(bytes).ok()) {
        Some(token) if token.is_empty() => Credential::None,
        Some(token) => Credential::Token(token),
        None => Credential::Malformed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bearer_token_ends_at_the_next_space() {
        let table: [(&[u8], Credential); 7] = [
            (b"Bearer abc", Credential::Token("abc".to_owned())),
            (b" bearer abc def", Credential::Token("abc".to_owned())),
            (b"Bearer ", Credential::None),
            (b"Bearer  abc", Credential::None),
            (b"Basic abc", Credential::None),
            ("Bearer gü".as_bytes(), Credential::Token("gü".to_owned())),
            (b"Bearer g\xfc", Credential::Malformed),
        ];
        for (shown, expected) in table {
            let mut headers = HeaderMap::new();
            headers.insert(AUTHORIZATION, HeaderValue::from_bytes(shown).unwrap());
            assert_eq!(take(&mut headers), expected, "{shown:?}");
        }
    }

    #[test]
    fn a_web_socket_takes_its_token_from_the_subprotocols() {
        let shown = |upgrade: &str, protocols: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(UPGRADE, upgrade.parse().unwrap());
            headers.insert(SEC_WEBSOCKET_PROTOCOL, protocols.parse().unwrap());
            let shown = take(&mut headers);
            (shown, headers[SEC_WEBSOCKET_PROTOCOL].to_str().unwrap().to_owned())
        };
        let token = format!("{PROTOCOL}YWJj");
        let both = format!("base64.binary.k8s.io, {token}");
        let good = (Credential::Token("abc".to_owned()), "base64.binary.k8s.io".to_owned());
        assert_eq!(shown("WebSocket", &both), good);
        assert_eq!(shown("h2c", &both).0, Credential::None);
        assert_eq!(shown("websocket", "base64.binary.k8s.io").0, Credential::None);
        for bad in [token.clone(), format!("{both},{token}"), format!("a,{PROTOCOL}!")] {
            assert_eq!(shown("websocket", &bad).0, Credential::Malformed, "{bad}");
        }
    }
}
