//! Tests of the claims and of the signing keys.

use apiserver_machinery::encryption::{Encryption, Provider, Rules};
use jiff::{SignedDuration, ToSpan};
use storage_embedded::EmbeddedStore;

use super::claims::{ObjectId, Objects};
use super::*;

const URL: &str = "https://issuer";

fn encryption(key: u8) -> Arc<Encryption> {
    let provider = Provider::aes_gcm(&format!("k{key}"), &[key; 32]).unwrap();
    Arc::new(Encryption::new(Rules::from([("secrets".to_owned(), vec![provider])])))
}

type Change = fn(&mut Claims);

fn claims(now: Timestamp) -> Claims {
    let account = ObjectId { name: "robot".to_owned(), uid: "u".to_owned() };
    Claims {
        aud: vec![URL.to_owned(), "other".to_owned()],
        exp: now.as_second() + 600,
        iat: now.as_second(),
        iss: URL.to_owned(),
        jti: "j".to_owned(),
        kubernetes: Objects { namespace: "ns".to_owned(), service_account: account, ..Objects::default() },
        nbf: now.as_second(),
        sub: "system:serviceaccount:ns:robot".to_owned(),
    }
}

#[test]
fn each_claim_that_is_wrong_refuses_the_token() {
    let now = Timestamp::now();
    let check = |change: Change| {
        let mut claims = claims(now);
        change(&mut claims);
        claims.refusal(URL, &[URL], now)
    };
    assert_eq!(check(|_| {}), None);
    let wrong: [(Change, &str); 5] = [
        (|claims| claims.iss = "https://other".to_owned(), "the issuer is"),
        (|claims| claims.aud = vec!["other".to_owned()], "the audiences are"),
        (|claims| claims.exp = claims.iat, "it ended 0 s ago"),
        (|claims| claims.nbf = claims.iat + 60, "it is not valid yet"),
        (|claims| claims.sub = "system:admin".to_owned(), "the subject is"),
    ];
    for (change, expected) in wrong {
        let refusal = check(change).unwrap_or_default();
        assert!(refusal.starts_with(expected), "{refusal}");
    }
}

#[tokio::test]
async fn keys_are_shared_by_replicas_and_follow_each_other_without_a_gap() {
    let directory = tempfile::tempdir().unwrap();
    let store: Arc<dyn storage_contract::Store> =
        Arc::new(EmbeddedStore::open(&directory.path().join("store")).unwrap());
    let replica = |key: u8| TokenIssuer::new(Arc::clone(&store), encryption(key), URL, LONGEST);
    let (first, second) = (replica(1), replica(1));
    // An unknown key is looked for at the present time, at which none is old.
    let start = Timestamp::now();
    let days = |count: i64| start + SignedDuration::from_hours(24 * count);
    first.keys.refresh(days(0)).await.unwrap();
    let old = first.keys.sign(&claims(days(0)), days(0)).await.unwrap();
    assert_eq!(second.keys.verify(&old).await.unwrap(), Some(claims(days(0))), "it reads an unknown key");

    // After 90 days there is a second key, which signs a day later.
    for replica in [&first, &second] {
        replica.keys.refresh(days(90)).await.unwrap();
        assert_eq!(replica.keys.published().len(), 2);
    }
    let now = first.keys.sign(&claims(days(90)), days(90)).await.unwrap();
    let next = first.keys.sign(&claims(days(91)), days(91)).await.unwrap();
    let id = |token: &str| jsonwebtoken::decode_header(token).unwrap().kid;
    assert_eq!(id(&now), id(&old));
    assert_ne!(id(&next), id(&old));
    for token in [&old, &now, &next] {
        assert!(second.keys.verify(token).await.unwrap().is_some());
    }

    // The first key goes when its last token has ended.
    first.keys.refresh(days(93) - 1.second()).await.unwrap();
    assert_eq!(first.keys.published().len(), 2);
    first.keys.refresh(days(94) + 1.second()).await.unwrap();
    assert_eq!(first.keys.published().len(), 1);
    assert_eq!(first.keys.verify(&now).await.unwrap(), None);

    // A replica with another encryption key makes no signing key of its own.
    let stranger = replica(2);
    let error = stranger.keys.sign(&claims(days(94)), days(94)).await.unwrap_err().to_string();
    assert!(error.contains("no key of this server opens the signing keys"), "{error}");
    assert_eq!(first.keys.published().len(), 1);
}
