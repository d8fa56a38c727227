//! Token of a request.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::header::{AUTHORIZATION, SEC_WEBSOCKET_PROTOCOL, UPGRADE};
use http::{HeaderMap, HeaderValue};

use super::issuers::names_no_issuer;

/// Prefix of the WebSocket subprotocol that carries the token, because browsers cannot set `Authorization` on a
/// WebSocket.
const PROTOCOL: &str = "base64url.bearer.authorization.k8s.io.";

/// Begin of each Fernet token, as Keystone issues them: the version of its form, and the first bytes of a time that does not
/// change before the year 2106. No JWT and no token of Kubernetes begins so.
const FERNET: &str = "gAAAAA";

/// Header with a token, by which OpenStack's clients show it.
const X_AUTH_TOKEN: &str = "x-auth-token";

/// Forms in which bearer tokens of Keystone are accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum KeystoneForms {
    /// There is no Keystone.
    None,
    /// Fernet tokens.
    Fernet,
    /// Also JWTs that name no issuer, as Keystone's provider `jws` issues them.
    FernetAndJws,
}

/// Token that a request shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Credential {
    None,
    Token(String),
    /// Token for Keystone.
    Keystone(String),
    /// Value that is sent as a token and cannot be one.
    Malformed,
}

/// Reads the token, and removes it from the subprotocols: the response repeats one of the others. Tokens of Keystone count
/// only if there is a Keystone.
pub(super) fn take(headers: &mut HeaderMap, forms: KeystoneForms) -> Credential {
    match bearer(headers).unwrap_or_else(|| of_web_socket(headers)) {
        Credential::Token(token) => classify(token, forms),
        Credential::None if forms != KeystoneForms::None => of_openstack(headers),
        other => other,
    }
}

/// Returns a token as one for its recipient, by its form.
pub(super) fn classify(token: String, forms: KeystoneForms) -> Credential {
    let is_of_keystone = match forms {
        KeystoneForms::None => false,
        KeystoneForms::Fernet => token.starts_with(FERNET),
        KeystoneForms::FernetAndJws => token.starts_with(FERNET) || names_no_issuer(&token),
    };
    if is_of_keystone { Credential::Keystone(token) } else { Credential::Token(token) }
}

/// Reads the token of an OpenStack client.
fn of_openstack(headers: &HeaderMap) -> Credential {
    match headers.get(X_AUTH_TOKEN).map(HeaderValue::to_str) {
        None | Some(Ok("")) => Credential::None,
        Some(Ok(token)) => Credential::Keystone(token.to_owned()),
        Some(Err(_)) => Credential::Malformed,
    }
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
            assert_eq!(take(&mut headers, KeystoneForms::None), expected, "{shown:?}");
        }
    }

    #[test]
    fn a_web_socket_takes_its_token_from_the_subprotocols() {
        let shown = |upgrade: &str, protocols: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(UPGRADE, upgrade.parse().unwrap());
            headers.insert(SEC_WEBSOCKET_PROTOCOL, protocols.parse().unwrap());
            let shown = take(&mut headers, KeystoneForms::None);
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

    #[test]
    fn a_token_has_one_recipient_by_its_form() {
        let shown = |authorization: Option<&str>, openstack: Option<&str>, forms| {
            let mut headers = HeaderMap::new();
            for (name, value) in [("authorization", authorization), (X_AUTH_TOKEN, openstack)] {
                if let Some(value) = value {
                    headers.insert(name, value.parse().unwrap());
                }
            }
            take(&mut headers, forms)
        };
        let [host, keystone] =
            [Credential::Token, Credential::Keystone].map(|kind| move |it: &str| kind(it.to_owned()));
        let (none, only_fernet, both) =
            (KeystoneForms::None, KeystoneForms::Fernet, KeystoneForms::FernetAndJws);
        let (fernet, jwt) = ("gAAAAABabc", "eyJh.eyJi.c");
        for forms in [only_fernet, both] {
            assert_eq!(shown(Some("Bearer gAAAAABabc"), None, forms), keystone(fernet));
            assert_eq!(shown(Some("Bearer eyJh.eyJi.c"), Some("x"), forms), host(jwt));
            assert_eq!(shown(None, Some("x"), forms), keystone("x"));
            assert_eq!(shown(None, Some(""), forms), Credential::None);
        }
        assert_eq!(shown(Some("Bearer gAAAAABabc"), None, none), host(fernet));
        assert_eq!(shown(None, Some("x"), none), Credential::None);

        // A JWT is Keystone's only if the setting says so, and if it names no issuer.
        let jwt = |claims: &str| format!("e30.{}.c2ln", URL_SAFE_NO_PAD.encode(claims));
        let (unnamed, named) = (jwt(r#"{"sub": "u1"}"#), jwt(r#"{"iss": "https://a", "sub": "u1"}"#));
        assert_eq!(shown(Some(&format!("Bearer {unnamed}")), None, both), keystone(&unnamed));
        assert_eq!(shown(Some(&format!("Bearer {unnamed}")), None, only_fernet), host(&unnamed));
        assert_eq!(shown(Some(&format!("Bearer {unnamed}")), None, none), host(&unnamed));
        assert_eq!(shown(Some(&format!("Bearer {named}")), None, both), host(&named));
    }
}
