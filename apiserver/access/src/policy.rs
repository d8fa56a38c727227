//! Local policy: the authorizer that decides without a host cluster.

use async_trait::async_trait;

use crate::answers::Answers;
use crate::authorizer::{self, Attributes, Authorizer, Decision, Rules, Verdict};
use crate::masters::SystemMasters;
use crate::user::{AUTHENTICATED, MASTERS, User};

/// Paths that every user may read, as with upstream's role `system:public-info-viewer`: these and
/// nothing below them.
const PUBLIC: [&str; 5] = ["/healthz", "/livez", "/readyz", "/version", "/version/"];

/// Paths that every authenticated user may read, with all that is below them, as with upstream's role
/// `system:discovery`: the served kinds, but not their objects.
const DISCOVERY: [&str; 3] = ["/api", "/apis", "/openapi"];

/// Reviews of the user's own permissions and identity, which every authenticated user may create, by
/// API group.
const OWN_REVIEWS: [(&str, &[&str]); 2] = [
    ("authorization.k8s.io", &["selfsubjectaccessreviews", "selfsubjectrulesreviews"]),
    ("authentication.k8s.io", &["selfsubjectreviews"]),
];

/// Permission of one of the server's own identities. `*` is any.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grant {
    /// Name of the identity, as in [`User::controller`].
    pub identity: &'static str,
    /// API groups; empty for core.
    pub groups: &'static [&'static str],
    /// Plurals, with `/` and the subresource where the grant is about one.
    pub resources: &'static [&'static str],
    /// Verbs.
    pub verbs: &'static [&'static str],
}

/// Rules that hold on both endpoints, with a host cluster or without: for all users, and for the
/// server's own identities, which are given to it. It knows no kinds.
#[derive(Debug, Clone, Default)]
pub struct LocalPolicy {
    grants: Vec<Grant>,
    masters: SystemMasters,
}

impl LocalPolicy {
    /// Creates a policy with these permissions of the server's own identities.
    pub fn new(grants: impl IntoIterator<Item = Grant>) -> Self {
        Self { grants: grants.into_iter().collect(), ..Self::default() }
    }

    /// Sets the users to whom the group `system:masters` gives all permissions. Default: all of them.
    #[must_use]
    pub fn with_masters(self, masters: SystemMasters) -> Self {
        Self { masters, ..self }
    }

    /// Returns the grants of a user. The name alone makes no user one of our own identities.
    fn grants<'a>(&'a self, user: &'a User) -> impl Iterator<Item = &'a Grant> {
        let identity = user.controller_identity();
        self.grants.iter().filter(move |grant| Some(grant.identity) == identity)
    }
}

#[async_trait]
impl Authorizer for LocalPolicy {
    async fn judge(&self, attributes: &Attributes) -> Verdict {
        let decided = match self.right(attributes) {
            Some(right) => (Decision::Allow, right.to_owned()),
            None => (Decision::NoOpinion(String::new()), String::new()),
        };
        Verdict::new(decided, self.name())
    }

    async fn answers(&self, attributes: &Attributes) -> Answers {
        let why = if attributes.user.is_in(MASTERS) {
            "the setting systemMasters gives the user of system:masters nothing, and no constant rule allows the request"
        } else {
            "the user is not in system:masters, and no constant rule allows the request"
        };
        Answers::one(self.judge(attributes).await).or_because(why)
    }

    fn name(&self) -> &'static str {
        "System"
    }

    async fn rules(&self, user: &User, _namespace: &str) -> Rules {
        Rules { rules: self.list(user), unknown: String::new() }
    }
}

impl LocalPolicy {
    /// Returns the reason for which a request is allowed, as the audit log has it.
    fn right(&self, attributes: &Attributes) -> Option<&'static str> {
        let user = &attributes.user;
        if self.masters.include(user) {
            return Some("local policy: the group system:masters");
        }
        if !attributes.is_resource() {
            return may_read_path(attributes).then_some("local policy: a path that every user may read");
        }
        if user.is_in(AUTHENTICATED) && is_own_review(attributes) {
            return Some("local policy: a review of the user's own identity or permissions");
        }
        let resource = match attributes.subresource.as_str() {
            "" => attributes.resource.clone(),
            subresource => format!("{}/{subresource}", attributes.resource),
        };
        let has = |list: &[&str], value: &str| list.iter().any(|entry| *entry == "*" || *entry == value);
        let is_granted = self.grants(user).any(|grant| {
            has(grant.groups, &attributes.group)
                && has(grant.resources, &resource)
                && has(grant.verbs, &attributes.verb)
        });
        is_granted.then_some("local policy: a permission of the server's own identity")
    }

    /// The same policy as a list.
    fn list(&self, user: &User) -> Vec<authorizer::Rule> {
        let texts = |list: &[&str]| list.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        let on = |verbs: &[&str], groups: &[&str], resources: &[&str]| authorizer::Rule {
            verbs: texts(verbs),
            groups: texts(groups),
            resources: texts(resources),
            ..authorizer::Rule::default()
        };
        let reads = |roots: &[&str]| authorizer::Rule {
            verbs: texts(&["get"]),
            paths: roots.iter().flat_map(|root| [(*root).to_owned(), format!("{root}/*")]).collect(),
            ..authorizer::Rule::default()
        };
        let public = authorizer::Rule { verbs: texts(&["get"]), paths: texts(&PUBLIC), ..Default::default() };
        let mut rules = vec![public];
        if user.is_in(AUTHENTICATED) {
            rules.extend(OWN_REVIEWS.iter().map(|(group, reviews)| on(&["create"], &[group], reviews)));
            rules.push(reads(&DISCOVERY));
        }
        if self.masters.include(user) {
            rules.push(on(&["*"], &["*"], &["*"]));
            rules.push(authorizer::Rule { verbs: texts(&["*"]), paths: texts(&["*"]), ..Default::default() });
        }
        rules.extend(self.grants(user).map(|grant| on(grant.verbs, grant.groups, grant.resources)));
        rules
    }
}

fn may_read_path(attributes: &Attributes) -> bool {
    let below = |roots: &[&str]| {
        let path = attributes.path.as_str();
        roots
            .iter()
            .any(|root| path.strip_prefix(root).is_some_and(|rest| rest.is_empty() || rest.starts_with('/')))
    };
    attributes.verb == "get"
        && (PUBLIC.contains(&attributes.path.as_str())
            || (attributes.user.is_in(AUTHENTICATED) && below(&DISCOVERY)))
}

fn is_own_review(attributes: &Attributes) -> bool {
    let known = OWN_REVIEWS.iter().any(|(group, reviews)| {
        attributes.group == *group && reviews.contains(&attributes.resource.as_str())
    });
    known && attributes.verb == "create" && attributes.subresource.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::user::User;

    /// A policy with one identity, which may change machines.
    fn policy() -> LocalPolicy {
        LocalPolicy::new([Grant {
            identity: "machine-controller",
            groups: &["cluster.x-k8s.io"],
            resources: &["machines"],
            verbs: &["get", "list", "watch", "update", "patch"],
        }])
    }

    fn rules(user: &User) -> Vec<authorizer::Rule> {
        policy().list(user)
    }

    fn ask(user: User, verb: &str, resource: &str, path: &str) -> bool {
        policy()
            .right(&Attributes {
                user: user.into(),
                verb: verb.to_owned(),
                group: "cluster.x-k8s.io".to_owned(),
                resource: resource.to_owned(),
                path: path.to_owned(),
                ..Attributes::default()
            })
            .is_some()
    }

    fn asks(user: User, verb: &str, resource: &str) -> bool {
        policy()
            .right(&Attributes {
                user: user.into(),
                verb: verb.to_owned(),
                group: "authorization.k8s.io".to_owned(),
                resource: resource.to_owned(),
                ..Attributes::default()
            })
            .is_some()
    }

    #[test]
    fn listed_rules_agree_with_the_decisions() {
        let bob = rules(&User::authenticated("bob", []));
        assert!(bob.iter().any(|rule| rule.resources == ["selfsubjectreviews"]), "{bob:?}");
        assert!(!bob.iter().any(|rule| rule.resources == ["*"]), "{bob:?}");
        let master = rules(&User::authenticated("a", ["system:masters".to_owned()]));
        assert!(master.iter().any(|rule| rule.resources == ["*"] && rule.verbs == ["*"]));
        assert_eq!(rules(&User::anonymous()).len(), 1);
    }

    #[test]
    fn iz_03_a_setting_says_whom_the_group_of_administrators_gives_all_permissions() {
        use crate::user::Realm;

        let master = |realm| User { realm, ..User::authenticated("a", ["system:masters".to_owned()]) };
        for (masters, of_own, of_host) in [
            (SystemMasters::All, true, true),
            (SystemMasters::OwnOnly, true, false),
            (SystemMasters::Off, false, false),
        ] {
            let policy = policy().with_masters(masters);
            for (realm, expected) in [(Realm::Own, of_own), (Realm::Host, of_host)] {
                let user = master(realm);
                let is_listed = policy.list(&user).iter().any(|rule| rule.resources == ["*"]);
                let verb = "delete".to_owned();
                let asked = Attributes { user: user.into(), verb, ..Attributes::default() };
                let is_allowed = policy.right(&asked).is_some();
                assert_eq!((is_allowed, is_listed), (expected, expected), "{masters:?} {asked:?}");
            }
            let controller = Attributes {
                user: User::controller("machine-controller").into(),
                verb: "patch".to_owned(),
                group: "cluster.x-k8s.io".to_owned(),
                resource: "machines".to_owned(),
                ..Attributes::default()
            };
            assert!(
                policy.right(&controller).is_some(),
                "the server's own identities have theirs: {masters:?}"
            );
        }
    }

    #[test]
    fn each_user_may_do_exactly_what_the_policy_allows() {
        let master = || User::authenticated("a", ["system:masters".to_owned()]);
        let bob = || User::authenticated("bob", []);
        let controller = || User::controller("machine-controller");
        let impostor = || User::authenticated("system:capstan:machine-controller", []);
        let table = [
            ("master deletes", ask(master(), "delete", "machines", ""), true),
            ("bob lists", ask(bob(), "list", "machines", ""), false),
            ("bob discovers", ask(bob(), "get", "", "/apis/cluster.x-k8s.io/v1beta2"), true),
            ("bob reads metrics", ask(bob(), "get", "", "/metrics"), false),
            ("bob looks alike", ask(bob(), "get", "", "/apisx"), false),
            ("anonymous checks health", ask(User::anonymous(), "get", "", "/readyz"), true),
            ("anonymous looks closer", ask(User::anonymous(), "get", "", "/readyz/etcd"), false),
            ("bob looks closer", ask(bob(), "get", "", "/livez/ping"), false),
            ("anonymous asks for the version", ask(User::anonymous(), "get", "", "/version"), true),
            ("anonymous asks for more", ask(User::anonymous(), "get", "", "/version/x"), false),
            ("bob looks for tokens' keys", ask(bob(), "get", "", "/.well-known/openid-configuration"), false),
            ("anonymous discovers", ask(User::anonymous(), "get", "", "/apis"), false),
            ("anonymous posts health", ask(User::anonymous(), "post", "", "/readyz"), false),
            ("controller patches", ask(controller(), "patch", "machines", ""), true),
            ("controller deletes", ask(controller(), "delete", "machines", ""), false),
            ("a user named like a controller", ask(impostor(), "patch", "machines", ""), false),
            ("bob asks what he may", asks(bob(), "create", "selfsubjectaccessreviews"), true),
            ("bob asks what others may", asks(bob(), "create", "subjectaccessreviews"), false),
            ("anonymous asks", asks(User::anonymous(), "create", "selfsubjectaccessreviews"), false),
        ];
        for (case, found, expected) in table {
            assert_eq!(found, expected, "{case}");
        }
    }
}
