//! Groups that a token does not hold, but names the place of (OpenID Connect, distributed claims).

use reqwest::Url;
use serde_json::Value;

use crate::claims::Claims;
use crate::keys::{body, root_cause};
use crate::verifier::{Rejected, Verifier};

/// Place of a claim.
#[derive(Debug, PartialEq, Eq)]
struct Source<'a> {
    endpoint: &'a str,
    access_token: Option<&'a str>,
}

/// Adds a claim that the token names the place of.
///
/// # Errors
/// The place is not one of the issuer, or its response is not a token of the issuer with the claim.
pub(crate) async fn resolve(claims: &mut Claims, name: &str, by: &Verifier) -> Result<(), Rejected> {
    if name.is_empty() || claims.contains_key(name) {
        return Ok(());
    }
    let Some(source) = source(claims, name) else { return Ok(()) };
    let url: Url =
        source.endpoint.parse().map_err(|_| Rejected::Invalid("its claim source is no URL".into()))?;
    // A token must not choose what the server reads, so it reads from the issuer's own host only.
    if !is_of_same_host(&url, by.issuer()) {
        let reason = format!("the source of its claim {name:?} is not on the host of the issuer: {url}");
        return Err(Rejected::Invalid(reason));
    }
    let mut request = by.client().get(url.clone());
    if let Some(token) = source.access_token {
        request = request.bearer_auth(token);
    }
    let silent = |error: &reqwest::Error| Rejected::Undecided(format!("{url}: {}", root_cause(error)));
    let response = request.send().await.map_err(|error| silent(&error))?;
    let (token, _) = body(response, &url).await.map_err(Rejected::Undecided)?;
    let token = String::from_utf8(token).map_err(|_| Rejected::Invalid(format!("{url}: it is no token")))?;
    let mut found = by.claims(token.trim()).await?;
    let value =
        found.remove(name).ok_or_else(|| Rejected::Invalid(format!("{url}: it has no claim {name:?}")))?;
    claims.insert(name.to_owned(), value);
    Ok(())
}

/// Returns the place of a claim.
fn source<'a>(claims: &'a Claims, name: &str) -> Option<Source<'a>> {
    let id = claims.get("_claim_names")?.get(name)?.as_str()?;
    let source = claims.get("_claim_sources")?.get(id)?;
    let text = |key: &str| source.get(key).and_then(Value::as_str);
    Some(Source { endpoint: text("endpoint")?, access_token: text("access_token") })
}

fn is_of_same_host(url: &Url, issuer: &str) -> bool {
    issuer.parse::<Url>().is_ok_and(|issuer| issuer.origin() == url.origin())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_source_is_on_the_host_of_the_issuer() {
        let of = |url: &str| is_of_same_host(&url.parse().unwrap(), "https://i.example/realm");
        assert!(of("https://i.example/groups") && of("https://i.example:443/x"));
        for bad in
            ["http://i.example/", "https://i.example:8443/", "https://j.example/", "https://i.example.evil/"]
        {
            assert!(!of(bad), "{bad}");
        }
    }

    #[test]
    fn a_token_names_the_source_of_a_claim() {
        let claims = json!({"_claim_names": {"groups": "s"}, "_claim_sources": {"s": {"endpoint": "https://i", "access_token": "t"}}});
        let claims = claims.as_object().unwrap();
        let expected = Source { endpoint: "https://i", access_token: Some("t") };
        assert_eq!(source(claims, "groups"), Some(expected));
        assert_eq!(source(claims, "other"), None);
    }
}
