//! `capstan host wait`: waits until the host cluster serves every API version through this server.
//!
//! An APIService that says `Available` is not enough. kube-apiserver writes that condition first, and its proxy takes
//! note of it up to a second later; until then it answers 503 by itself, and nothing reaches this server.

use std::io::Write;
use std::time::{Duration, Instant};

use anyhow::bail;
use apiserver_machinery::resource::Registry;
use kube::Client;

use crate::assembly::Assembly;
use crate::cli::WaitArguments;
use crate::output;

/// Pause between two passes over all versions: each is a request to the host, and the lag is below a second.
const PAUSE: Duration = Duration::from_millis(250);

/// Time for which every version must respond in each pass. After a new registration, the host's proxy can still serve
/// through the earlier one for a moment, and then not at all until it notes the new one. Both lags are below a second.
const STEADY: Duration = Duration::from_secs(2);

/// Path that the host serves by itself, to each user that it knows.
const OWN_API: &str = "/api";

/// Waits, and prints how many versions are served.
///
/// # Errors
/// After the timeout, names each version that is not served, with the last answer and what to do.
pub(crate) fn run(arguments: &WaitArguments, assembly: &Assembly) -> anyhow::Result<()> {
    let paths = paths(&assembly.registry());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let count = paths.len();
    let started = Instant::now();
    runtime.block_on(async {
        let client = apiserver_host::connect(&arguments.kubeconfig).await?;
        wait(&client, &paths, started + arguments.timeout).await
    })?;
    let seconds = started.elapsed().as_secs_f64();
    Ok(output::print(&format!(
        "the host cluster serves all {count} API versions through Capstan ({seconds:.1} s)\n"
    ))?)
}

/// An API version, and a list of one of its kinds that costs little.
struct Served {
    version: String,
    path: String,
}

fn paths(registry: &Registry) -> Vec<Served> {
    let mut all: Vec<Served> = Vec::new();
    for kind in registry.resources().iter().filter(|kind| kind.hosted) {
        let version = format!("{}.{}", kind.version, kind.group);
        if !all.iter().any(|served| served.version == version) {
            let path = format!("/apis/{}/{}/{}?limit=1", kind.group, kind.version, kind.plural);
            all.push(Served { version, path });
        }
    }
    all
}

/// Waits until every version has responded in each pass of [`STEADY`].
async fn wait(client: &Client, paths: &[Served], end: Instant) -> anyhow::Result<()> {
    let mut reported = false;
    let mut steady_since = None;
    loop {
        let pass = Instant::now();
        // A pass that has begun may end: a host that serves everything is not refused for the lack of a moment.
        let missing = missing(client, paths, end.max(pass + STEADY)).await?;
        if missing.is_empty() {
            if pass.duration_since(*steady_since.get_or_insert(pass)) >= STEADY {
                return Ok(());
            }
            tokio::time::sleep(PAUSE).await;
            continue;
        }
        steady_since = None;
        if Instant::now() >= end {
            bail!(
                "the host cluster does not serve these API versions through Capstan:\n{}\n\
                 See why with: kubectl describe apiservice NAME. Is `capstan serve --host-kubeconfig` running where\n\
                 the Service of `capstan host manifests` points to?",
                missing.join("\n")
            );
        }
        if !std::mem::replace(&mut reported, true) {
            writeln!(std::io::stderr().lock(), "waiting for {} API versions", missing.len())?;
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Returns a line for each version that is not served. One that has no answer at `end` is not: a host that accepts
/// connections and is silent would take the limit of a request for each version.
async fn missing(client: &Client, paths: &[Served], end: Instant) -> anyhow::Result<Vec<String>> {
    let mut missing = Vec::new();
    for served in paths {
        let answer = tokio::time::timeout_at(end.into(), unserved(client, &served.path)).await;
        if let Some(why) = answer.unwrap_or_else(|_| Ok(Some("no answer in time".to_owned())))? {
            missing.push(format!("  apiservice/{}: {why}", served.version));
        }
    }
    Ok(missing)
}

/// Returns true if a path answers with 401.
async fn is_unauthenticated(client: &Client, path: &str) -> anyhow::Result<bool> {
    let request = http::Request::get(path).body(Vec::new())?;
    let answer = client.request_text(request).await;
    Ok(matches!(answer, Err(kube::Error::Api(status)) if status.code == 401))
}

/// Returns why a list is not served, or `None` if it is.
///
/// # Errors
/// The host rejects the user. It does so before it forwards the request, so its response says nothing about Capstan. A 401
/// may be Capstan's own, after a rotation of the front proxy: then the host's own API accepts the user.
async fn unserved(client: &Client, path: &str) -> anyhow::Result<Option<String>> {
    let request = http::Request::get(path).body(Vec::new())?;
    match client.request_text(request).await {
        Ok(_) => Ok(None),
        Err(kube::Error::Api(status)) if status.code == 401 => {
            if is_unauthenticated(client, OWN_API).await? {
                bail!("the host cluster does not accept the credentials of --kubeconfig: {}", status.message)
            }
            Ok(Some("Capstan does not accept the certificate of the host's front proxy yet".to_owned()))
        }
        Err(kube::Error::Api(status)) if status.code == 403 => bail!(
            "the host cluster does not let the user of --kubeconfig list objects: {}. Use the kubeconfig of an\n\
             administrator of the host cluster",
            status.message
        ),
        Err(kube::Error::Api(status)) => Ok(Some(format!("{} {}", status.code, status.message.trim()))),
        Err(error) => Ok(Some(format!("{:#}", anyhow::Error::from(error).context("no answer")))),
    }
}

#[cfg(test)]
mod tests {
    use kube::client::Body;

    use super::*;

    #[tokio::test]
    async fn a_host_that_is_silent_does_not_prolong_the_wait() {
        let silent = tower::service_fn(|_: http::Request<Body>| {
            std::future::pending::<Result<http::Response<Body>, std::convert::Infallible>>()
        });
        let client = Client::new(silent, "default");
        let paths = paths(&apiserver_registry::registry());
        let begun = Instant::now();
        let error = wait(&client, &paths, begun + Duration::from_millis(100)).await.unwrap_err().to_string();
        assert!(error.contains("no answer in time"), "{error}");
        assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
    }

    #[test]
    fn every_hosted_version_is_waited_for_once() {
        let registry = apiserver_registry::registry();
        let mut expected: Vec<String> = Vec::new();
        for (group, versions) in registry.groups() {
            let hosted = |version: &String| {
                registry
                    .resources()
                    .iter()
                    .any(|kind| kind.hosted && kind.group == group && kind.version == *version)
            };
            expected.extend(
                versions.iter().filter(|version| hosted(version)).map(|version| format!("{version}.{group}")),
            );
        }
        let mut found: Vec<String> = paths(&registry).into_iter().map(|served| served.version).collect();
        expected.sort();
        found.sort();
        assert_eq!(found, expected);
    }
}
