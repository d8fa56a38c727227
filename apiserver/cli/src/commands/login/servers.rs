//! Choice among the servers of `--server`.

use std::path::Path;
use std::time::Duration;

use reqwest::{Client, StatusCode};

use super::http_client::http_client;
use crate::error::{ExitCode, Failure, chain};

/// Time limit of one server: the next one may be ready.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Returns the first of these servers that is ready. A single one is no choice, so it gets no request.
///
/// # Errors
/// A URL is not one of HTTPS, or no server is ready. The failure names each of them with its answer.
pub(super) async fn choose(servers: &[String], ca: Option<&Path>) -> Result<String, Failure> {
    if let Some(other) = servers.iter().find(|server| !server.starts_with("https://")) {
        let summary = format!("--server: {other:?} must begin with https://");
        return Err(Failure::new(ExitCode::Failed, summary));
    }
    if let [only] = servers {
        return Ok(only.clone());
    }
    let client = http_client(ca)?;
    let mut failure = Failure::new(ExitCode::Unreachable, "--server: no server is ready");
    for server in servers {
        match probe(&client, server).await {
            Ok(()) => return Ok(server.clone()),
            Err(why) => failure = failure.detail("server", format!("{server}: {why}")),
        }
    }
    Err(failure.next("check the URLs and --certificate-authority, then run the command again"))
}

/// Requests `/readyz`, without a credential. Returns the reason why the server is not ready.
async fn probe(client: &Client, server: &str) -> Result<(), String> {
    let url = format!("{}/readyz", server.trim_end_matches('/'));
    let response = client.get(url).timeout(TIMEOUT).send().await.map_err(|error| chain(&error))?;
    match response.status() {
        // A server that shows the path to known users only says no more than that it answers.
        StatusCode::OK | StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => Ok(()),
        other => Err(format!("/readyz is {other}")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tests_oidc_issuer::Issuer;

    use super::*;

    /// Sets the answer of a server to `/readyz`.
    fn answer(server: &Issuer, code: u16) {
        server.state().responses.insert("/readyz".to_owned(), (code, json!("etcd failed")));
    }

    #[tokio::test]
    async fn the_first_server_that_is_ready_is_chosen_and_a_failure_names_all() {
        let (first, second) = (Issuer::start(Vec::new()).await, Issuer::start(Vec::new()).await);
        let directory = tempfile::tempdir().unwrap();
        let ca = directory.path().join("ca.crt");
        std::fs::write(&ca, format!("{}{}", first.ca(), second.ca())).unwrap();
        let closed = {
            let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            format!("https://{}", free.local_addr().unwrap())
        };
        let servers = [closed.clone(), format!("{}/", first.url()), second.url().to_owned()];
        for (answers, expected) in [([500, 200], 2), ([200, 200], 1), ([401, 200], 1), ([404, 403], 2)] {
            answer(&first, answers[0]);
            answer(&second, answers[1]);
            assert_eq!(choose(&servers, Some(&ca)).await.unwrap(), servers[expected], "{answers:?}");
        }
        answer(&second, 503);
        let failure = choose(&servers, Some(&ca)).await.unwrap_err();
        assert_eq!(failure.code().number(), 6);
        let text = failure.to_string();
        for expected in [format!("{closed}: "), format!("{}/: /readyz is 404", first.url()), "503".to_owned()]
        {
            assert!(text.contains(&expected), "{text}");
        }
    }

    #[tokio::test]
    async fn a_single_server_gets_no_request_and_each_url_is_one_of_https() {
        let only = "https://192.0.2.1:7443".to_owned();
        assert_eq!(choose(std::slice::from_ref(&only), None).await.unwrap(), only);
        let failure = choose(&[only, "http://b".to_owned()], None).await.unwrap_err().to_string();
        assert!(failure.contains("--server: \"http://b\" must begin with https://"), "{failure}");
    }
}
