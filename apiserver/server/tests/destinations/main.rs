//! Backups in S3 and Swift: against moto, and against a real Swift with its own protocol and its S3 protocol.
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used, reason = "a test fails by panicking")]

mod installation;
mod moto;
mod swift;

use std::time::{Duration, Instant};

use tests_openstack_simulator::{Simulator, SimulatorOptions};

use installation::{Installation, Server};
use moto::Moto;
use swift::Swift;

/// Longest time that one test may take. Swift needs some seconds for its start.
const BUDGET: Duration = Duration::from_secs(90);

/// Old backup that a schedule removes.
const OLD: &str = "capstan-20200101T000000Z.capstan-backup";

/// Place with the calls that a test needs itself.
struct Place {
    /// Destination, without a name of an object.
    url: String,
    /// URL of one object's directory for plain HTTP, and a token for it.
    http: String,
    token: String,
}

impl Place {
    fn object(&self, name: &str) -> String {
        let (path, query) = self.url.split_once('?').unwrap_or((&self.url, ""));
        format!("{path}/{name}?{query}")
    }

    async fn call(&self, method: &str, path: &str, body: &str) -> (u16, String) {
        let request = reqwest::Client::new().request(method.parse().unwrap(), format!("{}{path}", self.http));
        let request = request.header("x-auth-token", &self.token).body(body.to_owned());
        let answer = request.send().await.unwrap();
        (answer.status().as_u16(), answer.text().await.unwrap())
    }
}

/// Writes a backup to a place, reads it, and restores it.
async fn restores(it: &Installation, place: &Place) {
    let begun = Instant::now();
    let written = it.succeeds(&["backup", "--to", &place.url]).await;
    let url = written.split("wrote and verified ").nth(1).and_then(|rest| rest.split(": ").next()).unwrap();
    let name = url.rsplit('/').next().unwrap().to_owned();
    assert!(name.ends_with(".capstan-backup"), "{written}");
    let object = place.object(&name);
    let verified = it.succeeds(&["restore", &object, "--verify-only"]).await;
    assert!(verified.contains("complete backup of capstan"), "{verified}");
    it.succeeds(&["restore", &object, "--to", "embedded", "--replace"]).await;
    let again = it.succeeds(&["restore", &object, "--to", "embedded"]).await;
    assert!(again.contains("has exactly these values already"), "{again}");
    assert!(!it.files().iter().any(|name| name.contains("upload")), "{:?}", it.files());
    let missing = it.fails(&["restore", &place.object("capstan-none"), "--verify-only"]).await;
    assert!(missing.contains("404") && missing.contains("capstan-none"), "{missing}");
    assert!(begun.elapsed() < BUDGET, "{:?}", begun.elapsed());
}

/// Lets a server write scheduled backups to a place, and remove those that expired.
async fn schedules(it: &Installation, place: &Place, list: impl AsyncFn() -> String) {
    let begun = Instant::now();
    let server = Server::start(it);
    loop {
        let listed = list().await;
        let is_new = listed.contains("capstan-202") && !listed.contains(OLD);
        if is_new && listed.contains("capstan-before.capstan-backup") {
            break;
        }
        assert!(begun.elapsed() < BUDGET, "{listed} {}", server.log());
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    // The newest backup is then restored for trial, as never before.
    while !server.log().contains("backup restored to a temporary store") {
        assert!(begun.elapsed() < BUDGET, "{}", server.log());
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let log = server.log();
    let scheme = place.url.split(':').next().unwrap();
    assert!(log.contains("backup written and verified") && log.contains(&format!("{scheme}://")), "{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn bk_02_backups_are_objects_of_s3() {
    let moto = Moto::start().await;
    let place = Place {
        url: format!("s3://backups/prod/eu?endpoint={}", moto.url()),
        http: format!("{}/backups", moto.url()),
        token: String::new(),
    };
    let it = Installation::new(&place.url, "  s3: {credentialsFile: CREDENTIALS}\n").await;
    let missing = it.fails(&["backup", "--to", &place.url]).await;
    assert!(missing.contains("NoSuchBucket") && missing.contains("Capstan creates none"), "{missing}");
    assert_eq!(place.call("PUT", "", "").await.0, 200);
    let none = it.fails(&["backup", "--config", "/dev/null", "--to", &place.url]).await;
    assert!(!none.contains("secret-of-the-test"), "{none}");
    for name in [OLD, "capstan-before.capstan-backup", "deeper/capstan-20200101T000000Z.capstan-backup"] {
        assert_eq!(place.call("PUT", &format!("/prod/eu/{name}"), "x").await.0, 200);
    }
    schedules(&it, &place, async || {
        let (code, text) = place.call("GET", "?list-type=2&prefix=prod/eu/capstan", "").await;
        assert_eq!(code, 200, "{text}");
        text
    })
    .await;
    let (_, others) = place.call("GET", "?list-type=2&prefix=prod/eu/deeper/", "").await;
    assert!(others.contains(OLD), "an object of another prefix was removed: {others}");
    restores(&it, &place).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn bk_02_backups_are_objects_of_swift_by_both_of_its_protocols() {
    let ports = Swift::ports();
    let object_store = Some(format!("http://127.0.0.1:{}/v1/AUTH_", ports[0]));
    let simulator =
        Simulator::start(SimulatorOptions { object_store, ..SimulatorOptions::default() }).await.unwrap();
    let swift = Swift::start(ports, &simulator.auth_url()).await;
    let (account, token) = swift.log_in(&simulator.auth_url()).await;
    let place = Place { url: "swift://backups/prod".to_owned(), http: format!("{account}/backups"), token };
    let it = Installation::new(&place.url, "  swift: {cloudsFile: CLOUDS}\n").await;
    it.write("CLOUDS", &simulator.clouds_yaml("demo"));
    let missing = it.fails(&["backup", "--to", &place.url]).await;
    assert!(missing.contains("404") && missing.contains("Capstan creates none"), "{missing}");
    assert_eq!(place.call("PUT", "", "").await.0, 201);
    for name in [OLD, "capstan-before.capstan-backup"] {
        assert_eq!(place.call("PUT", &format!("/prod/{name}"), "x").await.0, 201);
    }
    schedules(&it, &place, async || place.call("GET", "?prefix=prod/", "").await.1).await;
    restores(&it, &place).await;
    it.write("CLOUDS", &simulator.clouds_yaml("demo").replace("password: demo", "password: wrong"));
    let refused = it.fails(&["backup", "--to", &place.url]).await;
    assert!(refused.contains("the login failed") && !refused.contains("wrong"), "{refused}");

    // Swift's S3 protocol verifies the signatures, which moto does not.
    let s3 = format!("s3://signed/prod?endpoint={}", swift.s3_url());
    let it = Installation::new(&s3, "  s3: {credentialsFile: CREDENTIALS}\n").await;
    it.write("CREDENTIALS", "[default]\naws_access_key_id = test:tester\naws_secret_access_key = testing\n");
    swift.create_bucket("signed").await;
    restores(&it, &Place { url: s3.clone(), http: String::new(), token: String::new() }).await;
    it.write("CREDENTIALS", "[default]\naws_access_key_id = test:tester\naws_secret_access_key = other\n");
    let refused = it.fails(&["backup", "--to", &s3]).await;
    assert!(
        refused.contains("SignatureDoesNotMatch") && refused.contains("check the credentials"),
        "{refused}"
    );
    simulator.shutdown().await.unwrap();
}

/// Returns an object of about 900 KB that no compression makes much shorter.
fn noise(number: u64) -> String {
    let mut state = number.wrapping_mul(2).wrapping_add(1);
    let mut next = || {
        // The constants of Knuth's MMIX; the high bits are the good ones.
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        char::from(b'!' + u8::try_from((state >> 57) % 90).unwrap())
    };
    let text: String = (0..900_000).map(|_| next()).filter(|letter| !"\"\\".contains(*letter)).collect();
    format!(
        r#"{{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {{"name": "m{number}"}}, "data": {{"a": "{text}"}}}}"#
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn bk_02_a_large_backup_is_uploaded_to_s3_in_parts_and_none_is_left() {
    let moto = Moto::start().await;
    let place = Place {
        url: format!("s3://large/prod?endpoint={}", moto.url()),
        http: format!("{}/large", moto.url()),
        token: String::new(),
    };
    let it = Installation::new(&place.url, "  s3: {credentialsFile: CREDENTIALS, partSizeMiB: 5}\n").await;
    it.add_objects((0..18).map(noise)).await;
    let refused = it.fails(&["backup", "--to", &place.url]).await;
    assert!(refused.contains("begin to write") && refused.contains("NoSuchBucket"), "{refused}");
    assert_eq!(place.call("PUT", "", "").await.0, 200);
    restores(&it, &place).await;
    let (code, listed) = place.call("GET", "?list-type=2&prefix=prod/", "").await;
    let size = listed.split("<Size>").nth(1).and_then(|rest| rest.split('<').next()).unwrap();
    assert!(code == 200 && size.parse::<u64>().unwrap() > 10 * 1024 * 1024, "{listed}");
    // The ETag of an object in parts ends with their number. Three parts need more than 10 MiB.
    assert!(["-3\"", "-3&quot;"].iter().any(|end| listed.contains(end)), "{listed}");
    let (code, uploads) = place.call("GET", "?uploads", "").await;
    assert!(code == 200 && !uploads.contains("<UploadId>"), "{uploads}");
}
