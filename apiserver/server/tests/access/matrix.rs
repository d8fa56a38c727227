//! Access matrix: every identity sends every request, and gets the answer of the table.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::expected::Expected;
use crate::identities::{self, Entry, Identity};
use crate::routes::{self, Probe};
use crate::scene::Scene;

/// Classes that the host's front proxy does not reach: the host has these kinds itself.
const NOT_HOSTED: [&str; 9] =
    ["core", "secret", "role", "cluster-role", "config", "csr", "review", "own-review", "account-token"];

/// Number of requests of which one is sent with credentials that are refused. The server closes the connection after
/// each of these responses, and a new connection takes as long as ten requests.
const SAMPLE: usize = 12;

/// Returns the requests of an identity. Those that are refused for their credentials send each target once in a while.
fn requests<'a>(identity: &Identity, position: usize, probes: &'a [Probe]) -> Vec<&'a Probe> {
    match identity.entry {
        Entry::Refused => probes.iter().skip(position % SAMPLE).step_by(SAMPLE).collect(),
        Entry::Direct(_) | Entry::Hosted(_) => probes.iter().collect(),
    }
}

/// Returns the reason why a code is wrong; `None` if it is right.
fn mismatch(expected: &Expected, entry: Entry, class: &str, probe: &Probe, code: u16) -> Option<&'static str> {
    let is_refusal = matches!(code, 401 | 403);
    match entry {
        Entry::Refused if code == 401 => None,
        Entry::Refused => Some("the credentials must be refused"),
        Entry::Hosted(_) if NOT_HOSTED.contains(&class) && code != 404 && !is_refusal => {
            Some("the host has this itself")
        }
        Entry::Hosted(_) if NOT_HOSTED.contains(&class) => None,
        Entry::Direct(row) | Entry::Hosted(row) => match expected.allows(row, class, probe.verb) {
            true if is_refusal || code >= 500 => Some("the table allows it"),
            // A path or a method that no document has is 404 or 405 for those who may read documents.
            false if !is_refusal => Some("the table refuses it"),
            _ => None,
        },
    }
}

async fn walk(
    identity: &Identity,
    position: usize,
    probes: &[Probe],
    expected: &Expected,
) -> (usize, Vec<String>) {
    let (mut wrong, requests) = (Vec::new(), requests(identity, position, probes));
    for probe in &requests {
        let class = expected.class(&probe.target).unwrap();
        let code = identity.caller.code(probe).await;
        if let Some(why) = mismatch(expected, identity.entry, class, probe, code) {
            let (name, entry) = (identity.name, identity.entry);
            wrong.push(format!("{name} ({entry:?}): {} {} [{class}]: {code}, {why}", probe.verb, probe.target));
        }
    }
    (requests.len(), wrong)
}

/// Returns the requests that some class must have: otherwise a new route would not be in the table.
fn complete(expected: &Expected, probes: &[Probe]) {
    let targets: BTreeSet<String> = probes.iter().map(|probe| probe.target.clone()).collect();
    let missing: Vec<&String> = targets.iter().filter(|target| expected.class(target).is_none()).collect();
    assert!(missing.is_empty(), "no line of expected.txt says who may use these: {missing:#?}");
    let unused = expected.unused(&targets);
    assert!(unused.is_empty(), "lines of expected.txt about routes that are gone: {unused:#?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_identity_gets_the_expected_answer_on_every_route() {
    let scene = Scene::start().await;
    let (expected, admin) = (Arc::new(Expected::read()), scene.server.user("root", &["system:masters"]));
    let probes = Arc::new(routes::all(&admin).await);
    complete(&expected, &probes);
    let walks = identities::all(&scene).into_iter().enumerate().map(|(position, identity)| {
        let (expected, probes) = (Arc::clone(&expected), Arc::clone(&probes));
        tokio::spawn(async move { (identity.name, walk(&identity, position, &probes, &expected).await) })
    });
    let walks: Vec<_> = walks.collect();
    let (mut sent, mut wrong) = (BTreeMap::new(), Vec::new());
    for walk in walks {
        let (name, (count, mismatches)) = walk.await.unwrap();
        *sent.entry(name).or_insert(0) += count;
        wrong.extend(mismatches);
    }
    let total: usize = sent.values().sum();
    assert!(wrong.is_empty(), "{} of {total} answers are wrong:\n{}", wrong.len(), wrong.join("\n"));
    assert!(probes.len() > 1000 && total > 20 * probes.len(), "only {total} requests were sent: {sent:?}");
}
