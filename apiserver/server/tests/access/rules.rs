//! Rules of the matrix that hold for any table: they are written by hand, and no golden can accept a violation.

use std::collections::BTreeSet;

use crate::golden::Rights;

/// Paths that each client may read, with or without credentials.
const PUBLIC: [&str; 5] = ["/healthz", "/livez", "/readyz", "/version", "/version/"];

/// Beginnings of the paths of discovery, which each authenticated user may read.
const DISCOVERY: [&str; 4] = ["/api", "/apis", "/openapi", "/"];

/// Reviews by which each authenticated user learns about itself.
const OWN_REVIEWS: [&str; 3] = [
    "authentication.k8s.io/selfsubjectreviews",
    "authorization.k8s.io/selfsubjectaccessreviews",
    "authorization.k8s.io/selfsubjectrulesreviews",
];

/// Columns whose identities have no rights of their own.
pub(crate) const WITHOUT_RIGHTS: [&str; 5] =
    ["anonymous", "none", "refused-impersonator", "host/anonymous", "host/none"];

/// Requests of a machine about objects that are not its own, besides the public ones: the kind Event checks what it patches.
const OF_MACHINES: [(&str, &str); 2] =
    [("certificates.k8s.io/certificatesigningrequests", "create"), ("/events", "patch")];

/// Columns that may read Secrets in the namespace of the team.
const READERS_OF_SECRETS: [&str; 3] = ["edit", "admin", "masters"];

/// Columns that may read in namespaces of others.
const READERS_OF_ALL: [&str; 3] = ["operator", "masters", "host/masters"];

/// Returns true if the host cluster does this and the server refuses it to all: it writes service accounts of the team.
pub(crate) fn is_of_host(target: &str, verb: &str) -> bool {
    let is_account = target == "/serviceaccounts" || target.starts_with("/serviceaccounts/");
    is_account && ["create", "update", "patch", "apply"].contains(&verb)
}

/// Returns true if each client, or each authenticated user, may do this.
pub(crate) fn is_public(column: &str, target: &str, verb: &str) -> bool {
    // The request is refused before its path counts.
    if column == "refused-impersonator" {
        return false;
    }
    let is_authenticated = !column.ends_with("anonymous");
    let is_discovery = |root: &&str| match *root {
        "/" => target == "/",
        root => target == root || target.starts_with(&format!("{root}/")),
    };
    match verb {
        "get" if PUBLIC.contains(&target) => true,
        "get" => is_authenticated && DISCOVERY.iter().any(is_discovery),
        "create" => is_authenticated && OWN_REVIEWS.contains(&target),
        _ => false,
    }
}

/// Returns the cells of a column that violate a rule.
pub(crate) fn violations(column: &str, rights: &Rights) -> Vec<String> {
    let cells =
        rights.iter().flat_map(|(target, verbs)| verbs.iter().map(move |verb| (target.as_str(), *verb)));
    let broken = |target: &str, verb: &str| match verb {
        _ if WITHOUT_RIGHTS.contains(&column) && !is_public(column, target, verb) => {
            Some("the identity has no rights")
        }
        _ if column == "machine"
            && !is_public(column, target, verb)
            && !OF_MACHINES.contains(&(target, verb)) =>
        {
            Some("the object is not the machine's")
        }
        "elsewhere" | "everywhere" if !READERS_OF_ALL.contains(&column) => {
            Some("the rights are those in one namespace")
        }
        _ if target.starts_with("/secrets") && !READERS_OF_SECRETS.contains(&column) => {
            Some("the column may not use Secrets")
        }
        _ => None,
    };
    let found = cells.filter_map(|(target, verb)| {
        broken(target, verb).map(|why| format!("{column}: {verb} {target} is served, and {why}"))
    });
    found.collect()
}

/// Returns the number of cells of a column beyond the public ones.
pub(crate) fn beyond_public(column: &str, rights: &Rights) -> usize {
    let of_target = |(target, verbs): (&String, &BTreeSet<&'static str>)| {
        verbs.iter().filter(|verb| !is_public(column, target, verb)).count()
    };
    rights.iter().map(of_target).sum()
}

#[test]
fn the_rules_find_a_cell_that_no_golden_may_accept() {
    let of = |column: &str, target: &str, verb: &'static str| {
        let rights = Rights::from([(target.to_owned(), BTreeSet::from([verb]))]);
        violations(column, &rights).len()
    };
    assert_eq!(of("anonymous", "/readyz", "get"), 0);
    assert_eq!(of("anonymous", "/apis", "get"), 1);
    assert_eq!(of("none", "/apis/capstan.dev/v1alpha1", "get"), 0);
    assert_eq!(of("none", "/metrics", "get"), 1);
    assert_eq!(of("none", "cluster.x-k8s.io/machines", "get"), 1);
    assert_eq!(of("view", "cluster.x-k8s.io/machines", "get"), 0);
    assert_eq!(of("view", "/secrets", "list"), 1);
    assert_eq!(of("edit", "/secrets", "elsewhere"), 1);
    assert_eq!(of("machine", "/events", "patch"), 0);
    assert_eq!(of("machine", "/events", "create"), 1);
    assert_eq!(of("machine", "cluster.x-k8s.io/machines", "get"), 1);
    let rights = Rights::from([("/metrics".to_owned(), BTreeSet::from(["get"]))]);
    assert_eq!((beyond_public("none", &rights), beyond_public("anonymous", &Rights::default())), (1, 0));
}
