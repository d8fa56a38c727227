//! Identities: each has credentials, and a name in the table.

use serde_json::json;

use crate::caller::Caller;
use crate::host;
use crate::scene::Scene;

/// Effect of an identity's credentials.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Entry {
    /// The credentials are refused on every path with 401, also where no credentials are needed.
    Refused,
    /// The identity uses the direct endpoint with the rights of this row of the table.
    Direct(&'static str),
    /// The identity comes through the host.
    Hosted(&'static str),
}

/// One identity.
pub(crate) struct Identity {
    pub(crate) name: &'static str,
    pub(crate) entry: Entry,
    pub(crate) caller: Caller,
    /// True if it tries all targets. The others try every fourth.
    pub(crate) tries_all: bool,
}

/// Identities that share their column with another one and differ from it only in the source of their credentials.
const OF_SHARED_COLUMNS: [&str; 13] = [
    "anonymous with forged headers",
    "own that is named as a controller",
    "administrators",
    "impersonator",
    "OIDC",
    "OIDC without rights",
    "Keystone member",
    "Keystone reader",
    "Keystone administrator of another project",
    "host account by a token",
    "host user without rights, named as an own one, by a token",
    "OIDC user of the host",
    "OIDC user of the host without rights, named as an own one",
];

/// Headers by which a front proxy names an administrator, in the spellings that other programs understand, too.
const FORGED: [(&str, &str); 8] = [
    ("x-remote-user", "root"),
    ("x-remote-group", "system:masters"),
    ("x_remote_user", "root"),
    ("x_remote_group", "system:masters"),
    ("x-remote-extra-capstan.dev%2frealm", "own"),
    ("x-forwarded-client-cert", "By=x;Subject=\"CN=root,O=system:masters\""),
    ("x-client-cert", "CN=root,O=system:masters"),
    ("ssl-client-subject-dn", "CN=root,O=system:masters"),
];

fn forged(caller: Caller) -> Caller {
    FORGED.iter().fold(caller, |caller, (name, value)| caller.with(name, *value))
}

/// Returns all identities.
pub(crate) fn all(scene: &Scene) -> Vec<Identity> {
    let server = &scene.server;
    let mut identities = refused(scene);
    let mut add = |name, entry, caller| {
        identities.push(Identity { name, entry, caller, tries_all: !OF_SHARED_COLUMNS.contains(&name) });
    };
    let hosted = |user: &str| server.front_proxy("front").with("x-remote-user", user);
    let masters = "system:masters";
    add("anonymous", Entry::Direct("anonymous"), server.anonymous().over_http1());
    add("anonymous with forged headers", Entry::Direct("anonymous"), forged(server.anonymous().over_http1()));
    add("own without rights", Entry::Direct("none"), server.user("alice", &[]));
    add("own with forged headers", Entry::Direct("none"), forged(server.user("alice", &[])));
    add("own without the right to impersonate", Entry::Direct("refused-impersonator"), {
        let alice = server.user("alice", &[]);
        alice.with("impersonate-user", "root").with("impersonate-group", "system:masters")
    });
    add("own that is named as a controller", Entry::Direct("none"), {
        server.user("system:capstan:machine-controller", &["system:capstan:controllers"])
    });
    add("own that is named as a machine", Entry::Direct("none"), {
        server.user("system:machine:team:m1", &["system:machines"])
    });
    add("machine of another Machine", Entry::Direct("machine"), scene.machine.clone());
    add("view", Entry::Direct("view"), server.user("viewer", &[]));
    add("edit", Entry::Direct("edit"), server.user("editor", &[]));
    add("admin", Entry::Direct("admin"), server.user("administrator", &[]));
    add("operator", Entry::Direct("operator"), server.user("operator", &[]));
    add("masters", Entry::Direct("masters"), server.user("root", &[masters]));
    add("administrators", Entry::Direct("masters"), server.user("root", &["capstan:admins"]));
    add("monitoring", Entry::Direct("monitoring"), server.user("prometheus", &["system:monitoring"]));
    add("own account", Entry::Direct("view-account"), bearer(scene, &scene.account));
    add("impersonator", Entry::Direct("view"), {
        server.user("impersonator", &[]).with("impersonate-user", "carol")
    });
    let claims = |sub: &str| json!({"sub": sub, "groups": [masters, "capstan:admins-of-another"]});
    let oidc = |sub: &str| bearer(scene, &scene.issuer.token("k1", &claims(sub)));
    add("OIDC", Entry::Direct("view"), oidc("alice"));
    add("OIDC without rights", Entry::Direct("none"), oidc("viewer"));
    add("Keystone member", Entry::Direct("edit"), bearer(scene, &scene.keystone[0]));
    add("Keystone reader", Entry::Direct("view"), bearer(scene, &scene.keystone[2]));
    add(
        "Keystone administrator of another project",
        Entry::Direct("none"),
        bearer(scene, &scene.keystone[1]),
    );
    let of_host = |user: &str| bearer(scene, &format!("{}{user}", host::TOKEN));
    add("host user by a token", Entry::Direct("host-view"), of_host(host::VIEWER));
    add("host account by a token", Entry::Direct("host-view"), of_host(host::ACCOUNT));
    add(
        "host user without rights, named as an own one, by a token",
        Entry::Direct("none"),
        of_host("administrator"),
    );
    // IA-44: the host has the same issuer, so its users are those of the host, and groups of masters give nothing.
    let shared = |sub: &str| bearer(scene, &scene.shared_issuer.token("k1", &claims(sub)));
    add("OIDC user of the host", Entry::Direct("host-view"), shared(host::VIEWER));
    add(
        "OIDC user of the host without rights, named as an own one",
        Entry::Direct("none"),
        shared("administrator"),
    );
    add("host user", Entry::Hosted("host-view"), hosted(host::VIEWER));
    add("host user without rights, named as an own one", Entry::Hosted("none"), hosted("administrator"));
    add("host anonymous", Entry::Hosted("anonymous"), {
        hosted("system:anonymous").with("x-remote-group", "system:unauthenticated")
    });
    add("host masters", Entry::Hosted("masters"), hosted("root").with("x-remote-group", masters));
    identities
}

fn bearer(scene: &Scene, token: &str) -> Caller {
    scene.server.anonymous().with("authorization", format!("Bearer {token}"))
}

/// Returns the identities whose credentials are not valid.
fn refused(scene: &Scene) -> Vec<Identity> {
    let (server, masters) = (&scene.server, &["system:masters"][..]);
    let past = json!({"sub": "alice", "exp": 1});
    let foreign = json!({"sub": "alice", "aud": "another"});
    let unsigned = scene.account.rsplit_once('.').unwrap().0.to_owned() + ".";
    let all = [
        ("certificate of a stranger", server.stranger("root", masters)),
        ("expired certificate", server.expired("root", masters)),
        ("revoked certificate", server.user("mallory", masters)),
        ("front proxy that names no user", server.front_proxy("front")),
        ("front proxy with another name", server.front_proxy("back").with("x-remote-user", "root")),
        ("front proxy with a token", {
            server.front_proxy("front").with("authorization", format!("Bearer {}", scene.account))
        }),
        ("expired token", bearer(scene, &scene.issuer.token("k1", &past))),
        ("token for another audience", bearer(scene, &scene.issuer.token("k1", &foreign))),
        ("token without a signature", bearer(scene, &unsigned)),
        ("invented token", bearer(scene, "invented")),
        ("invented token of Keystone", bearer(scene, "gAAAAABinvented")),
    ];
    all.map(|(name, caller)| Identity { name, entry: Entry::Refused, caller, tries_all: false }).into()
}
