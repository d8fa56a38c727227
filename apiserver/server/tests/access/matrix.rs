//! Access matrix: every identity sends every request, and gets the answer of the table.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::caller::Verdict;
use crate::golden::{self, Rights};
use crate::identities::{self, Entry, Identity};
use crate::routes::{self, Probe};
use crate::rules;
use crate::scene::Scene;

/// Number of requests of which one is sent with credentials that are refused. The server closes the connection after
/// each of these responses, and a new connection takes as long as ten requests.
const SAMPLE: usize = 12;

/// Answers to one identity.
#[derive(Default)]
struct Walk {
    sent: usize,
    /// Targets that the identity has tried.
    tried: BTreeSet<String>,
    rights: Rights,
    wrong: Vec<String>,
}

/// Number of targets of which one is tried by an identity that shares its column with another one. The first identity of a
/// column tries all.
const SHARE: usize = 4;

/// Returns the requests of an identity. Those that are refused for their credentials send each target once in a while.
fn requests<'a>(identity: &Identity, position: usize, probes: &'a [Probe]) -> Vec<&'a Probe> {
    match identity.entry {
        Entry::Refused => probes.iter().skip(position % SAMPLE).step_by(SAMPLE).collect(),
        Entry::Direct(_) | Entry::Hosted(_) if identity.tries_all => probes.iter().collect(),
        Entry::Direct(_) | Entry::Hosted(_) => {
            let targets: BTreeSet<&str> = probes.iter().map(|probe| probe.target.as_str()).collect();
            let targets: BTreeSet<&str> = targets.into_iter().skip(position % SHARE).step_by(SHARE).collect();
            probes.iter().filter(|probe| targets.contains(probe.target.as_str())).collect()
        }
    }
}

/// Returns the reason why an answer is wrong in any table; `None` if the table decides.
fn mismatch(entry: Entry, probe: &Probe, verdict: Verdict) -> Option<&'static str> {
    match (entry, verdict) {
        (_, Verdict::Failed) => Some("the server failed"),
        (Entry::Refused, Verdict::Unauthorized) => None,
        (Entry::Refused, _) => Some("the credentials must be refused"),
        (Entry::Direct("masters") | Entry::Hosted("masters"), Verdict::Unauthorized | Verdict::Forbidden)
            if !rules::is_of_host(&probe.target, probe.verb) =>
        {
            Some("masters may do everything")
        }
        (Entry::Direct(row), Verdict::Absent)
            if rules::WITHOUT_RIGHTS.contains(&row) && !rules::is_public(row, &probe.target, probe.verb) =>
        {
            Some("an identity without rights must not learn what is absent")
        }
        _ => None,
    }
}

async fn walk(identity: &Identity, position: usize, probes: &[Probe]) -> Walk {
    let mut walk = Walk::default();
    for probe in requests(identity, position, probes) {
        let (verdict, code) = identity.caller.verdict(probe).await;
        walk.sent += 1;
        walk.tried.insert(probe.target.clone());
        if let Some(why) = mismatch(identity.entry, probe, verdict) {
            let (name, entry) = (identity.name, identity.entry);
            walk.wrong.push(format!("{name} ({entry:?}): {} {}: {code}, {why}", probe.verb, probe.path));
        }
        if verdict == Verdict::Served {
            walk.rights.entry(probe.target.clone()).or_default().insert(probe.verb);
        }
    }
    walk
}

/// Returns the column of an identity in the table.
fn column(entry: Entry) -> Option<String> {
    match entry {
        Entry::Refused => None,
        Entry::Direct(row) => Some(row.to_owned()),
        Entry::Hosted(row) => Some(format!("host/{row}")),
    }
}

/// Adds the rights of an identity to its column. All identities of a column have the same, as far as they try them.
fn add(columns: &mut Vec<(String, Rights)>, identity: &Identity, walk: &mut Walk) {
    let Some(column) = column(identity.entry) else { return };
    let rights = std::mem::take(&mut walk.rights);
    walk.wrong.extend(rules::violations(&column, &rights));
    let Some((_, known)) = columns.iter().find(|(known, _)| *known == column) else {
        assert!(identity.tries_all, "{}: the first identity of a column tries all", identity.name);
        return columns.push((column, rights));
    };
    let name = identity.name;
    let differs = |of: &Rights, other: &Rights| {
        of.iter()
            .filter(|(target, verbs)| walk.tried.contains(*target) && other.get(*target) != Some(verbs))
            .map(|it| format!("{it:?}"))
            .collect()
    };
    let (more, less): (Vec<String>, Vec<String>) = (differs(&rights, known), differs(known, &rights));
    if !more.is_empty() || !less.is_empty() {
        walk.wrong.push(format!("{name} differs from {column}: {more:#?}, instead of {less:#?}"));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_identity_gets_the_expected_answer_on_every_route() {
    let scene = Scene::start().await;
    let admin = scene.server.user("root", &["system:masters"]);
    let probes = Arc::new(routes::all(&admin).await);
    let walks = identities::all(&scene).into_iter().enumerate().map(|(position, identity)| {
        let probes = Arc::clone(&probes);
        tokio::spawn(async move { (walk(&identity, position, &probes).await, identity) })
    });
    let walks: Vec<_> = walks.collect();
    let (mut sent, mut wrong, mut columns) = (BTreeMap::new(), Vec::new(), Vec::new());
    for walk in walks {
        let (mut walk, identity) = walk.await.unwrap();
        add(&mut columns, &identity, &mut walk);
        sent.insert(identity.name, walk.sent);
        wrong.extend(walk.wrong);
    }
    let total: usize = sent.values().sum();
    assert!(wrong.is_empty(), "{} of {total} answers are wrong:\n{}", wrong.len(), wrong.join("\n"));
    assert!(probes.len() > 1000 && total > 16 * probes.len(), "only {total} requests were sent: {sent:?}");
    for name in rules::WITHOUT_RIGHTS {
        let (_, rights) = columns.iter().find(|(column, _)| column == name).unwrap();
        assert_eq!(rules::beyond_public(name, rights), 0, "{name}");
    }
    golden::compare(&columns);
}
