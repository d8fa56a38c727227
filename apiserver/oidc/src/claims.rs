//! Form of a token, and the claims that every token needs.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::algorithm::Algorithm;

/// Claims of a token.
pub(crate) type Claims = Map<String, Value>;

/// Longest token. Unit: bytes.
const LONGEST: usize = 16 * 1024;

/// Difference of the clocks that is accepted for the times of issue. Unit: seconds.
const LEEWAY: f64 = 10.0;

/// Token whose signature is not verified yet.
#[derive(Debug)]
pub(crate) struct Unverified<'a> {
    pub(crate) algorithm: Algorithm,
    /// Id of the key that signed it.
    pub(crate) key: Option<String>,
    pub(crate) message: &'a str,
    pub(crate) signature: &'a str,
    payload: &'a str,
}

/// Header of a token. Keys and addresses of keys in it are never used: the sender of the token chose them.
#[derive(Deserialize)]
struct Header {
    alg: String,
    kid: Option<String>,
    crit: Option<Value>,
}

impl<'a> Unverified<'a> {
    /// Reads the form of a token.
    ///
    /// # Errors
    /// The reason why it is refused.
    pub(crate) fn read(token: &'a str, algorithms: &[Algorithm]) -> Result<Self, String> {
        if token.len() > LONGEST {
            return Err(format!("it is longer than {LONGEST} bytes"));
        }
        let malformed = || "it is no signed JWT".to_owned();
        let (message, signature) = token.rsplit_once('.').ok_or_else(malformed)?;
        let (header, payload) = message.split_once('.').ok_or_else(malformed)?;
        let header = URL_SAFE_NO_PAD.decode(header).map_err(|_| malformed())?;
        let header: Header = serde_json::from_slice(&header).map_err(|_| malformed())?;
        if header.crit.is_some() {
            return Err("its header has critical extensions".to_owned());
        }
        let algorithm = Algorithm::named(&header.alg).filter(|found| algorithms.contains(found));
        let algorithm = algorithm.ok_or_else(|| format!("its algorithm {:?} is not allowed", header.alg))?;
        Ok(Self { algorithm, key: header.kid, message, signature, payload })
    }

    /// Returns the claims. The caller has verified the signature.
    pub(crate) fn claims(&self) -> Result<Claims, String> {
        let payload = URL_SAFE_NO_PAD.decode(self.payload).map_err(|_| "its claims are not base64url")?;
        serde_json::from_slice(&payload).map_err(|error| format!("its claims are no JSON object: {error}"))
    }
}

/// Checks the issuer, the audience and the times. `now` is in seconds.
///
/// # Errors
/// The reason why the token is refused.
pub(crate) fn check(claims: &Claims, issuer: &str, audiences: &[String], now: f64) -> Result<(), String> {
    if claims.get("iss").and_then(Value::as_str) != Some(issuer) {
        return Err("its issuer is another one".to_owned());
    }
    let shown = match claims.get("aud") {
        Some(Value::String(one)) => vec![one.as_str()],
        Some(Value::Array(all)) => all.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    if !audiences.iter().any(|own| shown.contains(&own.as_str())) {
        return Err(format!("its audience is {shown:?}, not one of {audiences:?}"));
    }
    let end = time(claims, "exp")?.ok_or("it has no exp: it would never end")?;
    if now >= end {
        return Err("it has expired".to_owned());
    }
    for name in ["nbf", "iat"] {
        if time(claims, name)?.is_some_and(|begin| now + LEEWAY < begin) {
            return Err(format!("its {name} is in the future"));
        }
    }
    Ok(())
}

/// Returns a time in seconds, or `None` if there is none.
fn time(claims: &Claims, name: &str) -> Result<Option<f64>, String> {
    match claims.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Number(number)) => Ok(number.as_f64()),
        Some(_) => Err(format!("its {name} is no number")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn checked(changes: &Value) -> Result<(), String> {
        let mut claims = json!({"iss": "https://i", "aud": "a", "exp": 1000, "iat": 900});
        for (name, value) in changes.as_object().unwrap() {
            claims[name] = value.clone();
        }
        let Value::Object(claims) = claims else { panic!() };
        check(&claims, "https://i", &["a".to_owned(), "b".to_owned()], 950.0)
    }

    #[test]
    fn the_times_have_a_leeway_except_for_the_end() {
        for good in [
            json!({}),
            json!({"aud": ["x", "b"]}),
            json!({"exp": 950.5}),
            json!({"exp": 1e300}),
            json!({"nbf": 960, "iat": 960}),
            json!({"nbf": null}),
        ] {
            assert_eq!(checked(&good), Ok(()), "{good}");
        }
        for (bad, expected) in [
            (json!({"iss": "https://i/"}), "issuer"),
            (json!({"iss": ["https://i"]}), "issuer"),
            (json!({"aud": "c"}), "audience"),
            (json!({"aud": null}), "audience"),
            (json!({"aud": []}), "audience"),
            (json!({"exp": null}), "no exp"),
            (json!({"exp": "1000"}), "no number"),
            (json!({"exp": 950}), "expired"),
            (json!({"exp": 949}), "expired"),
            (json!({"exp": -1}), "expired"),
            (json!({"nbf": 961}), "nbf"),
            (json!({"iat": 961}), "iat"),
            (json!({"iat": "900"}), "no number"),
        ] {
            let error = checked(&bad).unwrap_err();
            assert!(error.contains(expected), "{bad}: {error}");
        }
    }

    #[test]
    fn a_header_names_an_algorithm_that_is_allowed() {
        let read = |header: &str| {
            let token = format!("{}.e30.c2ln", URL_SAFE_NO_PAD.encode(header));
            Unverified::read(&token, &Algorithm::DEFAULT).map(|it| it.algorithm)
        };
        assert_eq!(read(r#"{"alg":"RS256","typ":"anything","jku":"https://evil"}"#), Ok(Algorithm::Rs256));
        for bad in [
            r#"{"alg":"none"}"#,
            r#"{"alg":"None"}"#,
            r#"{"alg":"HS256"}"#,
            r#"{"alg":"EdDSA"}"#,
            r#"{"alg":"rs256"}"#,
            r#"{"alg":["RS256"]}"#,
            r#"{"alg":"RS256","alg":"none"}"#,
            r#"{"alg":"RS256","crit":["exp"]}"#,
            r#"{"kid":"a"}"#,
            "x",
        ] {
            assert!(read(bad).is_err(), "{bad}");
        }
        let long = format!("e30.{}.x", "a".repeat(LONGEST));
        for bad in ["", "a", "a.b", "..", "a.b.c.d", long.as_str()] {
            assert!(Unverified::read(bad, &Algorithm::DEFAULT).is_err());
        }
    }
}
