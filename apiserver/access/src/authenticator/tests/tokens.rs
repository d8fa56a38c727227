//! Tests of bearer tokens and their sources.

use std::sync::Arc;

use async_trait::async_trait;
use http::HeaderMap;
use http::header::AUTHORIZATION;

use super::Tokens;
use crate::authenticator::{
    Authenticator, Issuer, RequestHeaders, ReviewFailed, TokenSource, Unauthenticated,
};
use crate::limits::{AccessRules, TokenLimits};
use crate::peer::Peer;
use crate::testing::block;
use crate::user::{BREAK_GLASS, REALM, Realm, User};

#[test]
fn a_token_reviewer_names_the_user_but_never_a_controller() {
    let authenticator = Authenticator::new(RequestHeaders::default(), Some(Arc::new(Tokens)));
    let with = |token: &str| {
        let mut headers = HeaderMap::new();
        headers.insert(AUTHORIZATION, format!("Bearer {token}").parse().unwrap());
        let found = block(authenticator.authenticate(&Peer::Unidentified, None, &mut headers));
        assert!(headers.is_empty(), "{headers:?}");
        found.map(|found| found.user)
    };
    let user = with("good").unwrap();
    assert_eq!(user.realm, Realm::Host);
    assert_eq!(
        (user.name.as_str(), user.groups.clone()),
        ("carol", vec!["dev".to_owned(), "system:authenticated".to_owned()])
    );
    let mut headers = HeaderMap::new();
    headers.insert(AUTHORIZATION, "Bearer good".parse().unwrap());
    let beside = block(authenticator.authenticate(&Peer::Untrusted, None, &mut headers));
    assert_eq!(beside.unwrap().user.name, "carol", "a token beside a stranger's certificate");
    assert_eq!(with("bad"), Err(Unauthenticated::Refused));
    assert_eq!(with("other").unwrap_err().to_string(), "ask again");
}

/// Verifier that names the user of each token by the token's last part.
#[derive(Debug)]
struct Verifier(&'static str);

#[async_trait]
impl TokenSource for Verifier {
    async fn review(&self, token: &str) -> Result<Option<User>, ReviewFailed> {
        let name = token.rsplit('.').next().unwrap_or_default();
        let groups = ["dev", "system:masters", "system:unauthenticated"].map(str::to_owned);
        Ok(Some(User::authenticated(format!("{}{name}", self.0), groups)))
    }
}

/// Returns the user of a token that names this issuer.
fn of_issuer(
    authenticator: &Authenticator,
    issuer: &str,
    signature: &str,
) -> Result<Arc<User>, Unauthenticated> {
    use base64::Engine;
    let payload = base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(format!(r#"{{"iss":"{issuer}"}}"#));
    let mut headers = HeaderMap::new();
    headers.insert(AUTHORIZATION, format!("Bearer e30.{payload}.{signature}").parse().unwrap());
    block(authenticator.authenticate(&Peer::Unidentified, None, &mut headers)).map(|found| found.user)
}

#[test]
fn a_jwt_goes_to_the_verifier_of_its_issuer_alone() {
    let issuer = |url: &str, prefix, realm| Issuer {
        url: url.to_owned(),
        realm,
        verifier: Arc::new(Verifier(prefix)),
    };
    let foreign = || Realm::Issuer("https://b".into());
    let authenticator = Authenticator::new(RequestHeaders::default(), Some(Arc::new(Tokens)));
    let authenticator = authenticator.with_issuer(issuer("https://a", "system:serviceaccount:", Realm::Own));
    authenticator.set_issuers(vec![
        issuer("https://b", "b:", foreign()),
        issuer("https://a", "forged:", Realm::Issuer("https://a".into())),
        issuer("https://c", "system:", Realm::Issuer("https://c".into())),
    ]);
    let of = |url: &str| of_issuer(&authenticator, url, "x");
    let own = of("https://a").unwrap();
    assert_eq!((own.name.as_str(), own.realm.clone()), ("system:serviceaccount:x", Realm::Own));
    let user = of("https://b").unwrap();
    assert_eq!((user.name.as_str(), user.realm.clone()), ("b:x", foreign()));
    assert_eq!(user.groups, ["dev", "system:authenticated"], "reserved groups");
    assert_eq!(of("https://c"), Err(Unauthenticated::Refused), "a reserved name");
    assert_eq!(of("https://b/").unwrap_err().to_string(), "ask again", "another issuer: the host decides");
    authenticator.set_issuers(Vec::new());
    assert_eq!(of("https://b").unwrap_err().to_string(), "ask again");
}

#[test]
fn the_hosts_service_accounts_of_our_own_namespace_are_refused() {
    /// Host that knows a service account of each namespace.
    #[derive(Debug)]
    struct Accounts;

    #[async_trait]
    impl TokenSource for Accounts {
        async fn review(&self, token: &str) -> Result<Option<User>, ReviewFailed> {
            Ok(Some(User::authenticated(format!("system:serviceaccount:{token}:robot"), [])))
        }
    }
    let host = || Authenticator::new(RequestHeaders::default(), Some(Arc::new(Accounts)));
    let verifier = Arc::new(Verifier(""));
    let own = Issuer { url: "https://a".to_owned(), realm: Realm::Own, verifier };
    for (authenticator, namespace, is_known) in [
        (host(), "capstan-system", true),
        (host().with_issuer(own.clone()), "capstan-system", false),
        (host().with_issuer(own), "team", true),
    ] {
        let mut headers = HeaderMap::new();
        headers.insert(AUTHORIZATION, format!("Bearer {namespace}").parse().unwrap());
        let found = block(authenticator.authenticate(&Peer::Unidentified, None, &mut headers));
        assert_eq!(found.is_ok(), is_known, "{namespace}");
    }
}

/// Host that issues the tokens of `https://host`, and refuses all. It notes what it was shown.
#[derive(Debug, Default)]
struct IssuingHost(std::sync::Mutex<Vec<String>>);

#[async_trait]
impl TokenSource for IssuingHost {
    async fn review(&self, token: &str) -> Result<Option<User>, ReviewFailed> {
        self.0.lock().unwrap().push(token.to_owned());
        Ok(None)
    }

    async fn may_have_issued(&self, token: &str) -> bool {
        use base64::Engine;
        let payload = token.split('.').nth(1).unwrap_or_default();
        let payload = base64::engine::general_purpose::URL_SAFE_NO_PAD.decode(payload).unwrap_or_default();
        String::from_utf8_lossy(&payload).contains("https://host")
    }
}

/// Webhook that knows each token, and gives attributes of this server.
#[derive(Debug)]
struct Webhook(&'static str);

#[async_trait]
impl TokenSource for Webhook {
    async fn review(&self, _: &str) -> Result<Option<User>, ReviewFailed> {
        let mut user = User::authenticated(self.0, ["dev".to_owned(), "system:masters".to_owned()]);
        user.extra.insert(BREAK_GLASS.to_owned(), vec!["forged".to_owned()]);
        Ok(Some(user))
    }
}

#[test]
fn a_webhook_sees_only_tokens_that_no_other_source_can_have_issued() {
    let host = Arc::new(IssuingHost::default());
    let of = |realm, name| Issuer { url: "webhook".to_owned(), realm, verifier: Arc::new(Webhook(name)) };
    let with = |webhook: Issuer| {
        let host: Arc<dyn TokenSource> = Arc::<IssuingHost>::clone(&host);
        let authenticator = Authenticator::new(RequestHeaders::default(), Some(host));
        let known =
            Issuer { url: "https://a".to_owned(), realm: Realm::Own, verifier: Arc::new(Verifier("a:")) };
        authenticator.with_issuer(known).with_webhook(Some(webhook))
    };
    let authenticator = with(of(Realm::Webhook, "carol"));
    let user = of_issuer(&authenticator, "https://other", "x").unwrap();
    assert_eq!((user.name.as_str(), user.realm.clone()), ("carol", Realm::Webhook));
    assert_eq!(user.groups, ["dev", "system:authenticated"], "reserved groups");
    assert_eq!(user.extra[REALM], ["webhook"]);
    assert!(!user.extra.contains_key(BREAK_GLASS), "{:?}", user.extra);
    assert_eq!(of_issuer(&authenticator, "https://a", "x").unwrap().name, "a:x");
    assert!(host.0.lock().unwrap().is_empty(), "the host sees no token of others");
    assert_eq!(of_issuer(&authenticator, "https://host", "x"), Err(Unauthenticated::Refused));
    assert_eq!(host.0.lock().unwrap().len(), 1, "the host's own token goes to the host alone");
    let reserved = with(of(Realm::Webhook, "system:admin"));
    assert_eq!(of_issuer(&reserved, "https://other", "x"), Err(Unauthenticated::Refused));
    let shared = of_issuer(&with(of(Realm::Host, "alice")), "https://other", "x").unwrap();
    assert_eq!((shared.realm.clone(), shared.is_in("system:masters")), (Realm::Host, false));
}

/// Keystone that knows each token. Those that begin with `gAAAAABr` are restricted.
#[derive(Debug)]
struct Keystone;

#[async_trait]
impl TokenSource for Keystone {
    async fn review(&self, token: &str) -> Result<Option<User>, ReviewFailed> {
        let mut user = User::authenticated("keystone:Default/demo", []);
        let rules = TokenLimits { requests: Some(AccessRules::new("s", Vec::new())), certificate: None };
        user.limits = token.starts_with("gAAAAABr").then(|| Arc::new(rules));
        Ok(Some(user))
    }
}

#[test]
fn ia_52_the_user_of_a_restricted_token_has_its_limits_and_no_other_program_gets_it() {
    let authenticator =
        Authenticator::new(RequestHeaders::default(), None).with_keystone(Some(Arc::new(Keystone)));
    for (token, is_limited) in [("gAAAAABr", true), ("gAAAAABfree", false)] {
        let mut headers = HeaderMap::new();
        headers.insert(AUTHORIZATION, format!("Bearer {token}").parse().unwrap());
        let found = block(authenticator.authenticate(&Peer::Unidentified, None, &mut headers)).unwrap();
        assert_eq!(found.user.limits.is_some(), is_limited, "{token}");
        let reviewed = block(authenticator.review(token, None)).unwrap();
        assert_eq!(reviewed.is_none(), is_limited, "a program does not enforce the limits: {token}");
    }
}

#[test]
fn a_token_that_was_shown_is_checked_again_and_stays_hidden() {
    let authenticator = Authenticator::new(RequestHeaders::default(), Some(Arc::new(Tokens)));
    let shown = |value: &str| {
        let mut headers = HeaderMap::new();
        headers.insert(AUTHORIZATION, value.parse().unwrap());
        authenticator.shown_token(&Peer::Unidentified, &headers)
    };
    let again = |token: &str| block(authenticator.is_valid(&shown(&format!("Bearer {token}")).unwrap()));
    assert_eq!(again("good"), Ok(true));
    assert_eq!(again("bad"), Ok(false));
    assert_eq!(again("other"), Err(ReviewFailed("ask again".to_owned())), "nothing says that it has ended");
    assert!(!format!("{:?}", shown("Bearer good")).contains("good"));
    assert!(shown("Basic good").is_none());
    assert!(authenticator.shown_token(&Peer::Unidentified, &HeaderMap::new()).is_none());
}
