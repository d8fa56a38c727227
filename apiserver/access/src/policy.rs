//! What is decided without asking anybody.

use async_trait::async_trait;

use crate::authorizer::{self, Attributes, Authorizer, Decision, Rules};
use crate::user::{AUTHENTICATED, MASTERS, User};

/// Paths that everybody may read, as with upstream's role `system:public-info-viewer`: these and
/// nothing below them.
const PUBLIC: [&str; 5] = ["/healthz", "/livez", "/readyz", "/version", "/version/"];

/// Paths that everybody who is known may read, with all that is below them, as with upstream's role
/// `system:discovery`: what is served, not what it holds.
const DISCOVERY: [&str; 3] = ["/api", "/apis", "/openapi"];

/// Questions about oneself, which everybody who is known may ask, by group.
const OWN_QUESTIONS: [(&str, &[&str]); 2] = [
    ("authorization.k8s.io", &["selfsubjectaccessreviews", "selfsubjectrulesreviews"]),
    ("authentication.k8s.io", &["selfsubjectreviews"]),
];

/// One thing a controller may do.
struct Rule {
    user: &'static str,
    groups: &'static [&'static str],
    resources: &'static [&'static str],
    verbs: &'static [&'static str],
}

const READ: &[&str] = &["get", "list", "watch"];
const WRITE: &[&str] = &["get", "list", "watch", "create", "update", "patch", "delete"];
const CHANGE: &[&str] = &["get", "list", "watch", "update", "patch"];

/// What each of our own controllers needs, and no more. `*` is any.
const RULES: &[Rule] = &[
    Rule {
        user: "system:capstan:cluster-controller",
        groups: &["cluster.x-k8s.io"],
        resources: &["clusters", "clusters/status", "machines"],
        verbs: &["get", "list", "watch", "update", "patch", "delete"],
    },
    Rule {
        user: "system:capstan:cluster-controller",
        groups: &["cluster.x-k8s.io"],
        resources: &["machinepools", "machinedeployments", "machinesets"],
        verbs: &["list", "delete"],
    },
    Rule {
        user: "system:capstan:cluster-controller",
        groups: &["controlplane.cluster.x-k8s.io"],
        resources: &["kubeadmcontrolplanes"],
        verbs: &["get", "delete"],
    },
    Rule {
        user: "system:capstan:cluster-controller",
        groups: &["infrastructure.cluster.x-k8s.io"],
        resources: &["openstackclusters"],
        verbs: &["get", "list", "watch", "update", "patch", "delete"],
    },
    Rule {
        user: "system:capstan:machine-controller",
        groups: &["cluster.x-k8s.io"],
        resources: &["clusters", "machines", "machines/status"],
        verbs: CHANGE,
    },
    Rule {
        user: "system:capstan:machine-controller",
        groups: &["infrastructure.cluster.x-k8s.io"],
        resources: &["openstackmachines"],
        verbs: &["get", "list", "watch", "update", "patch", "delete"],
    },
    Rule {
        user: "system:capstan:machine-controller",
        groups: &[""],
        resources: &["secrets"],
        verbs: &["get"],
    },
    Rule {
        user: "system:capstan:openstackcluster-controller",
        groups: &["infrastructure.cluster.x-k8s.io"],
        resources: &["openstackclusters", "openstackclusters/status", "openstackmachines"],
        verbs: CHANGE,
    },
    Rule {
        user: "system:capstan:openstackcluster-controller",
        groups: &["cluster.x-k8s.io"],
        resources: &["clusters", "machines"],
        verbs: READ,
    },
    Rule {
        user: "system:capstan:openstackcluster-controller",
        groups: &[""],
        resources: &["secrets"],
        verbs: &["get"],
    },
    Rule {
        user: "system:capstan:openstackmachine-controller",
        groups: &["infrastructure.cluster.x-k8s.io"],
        resources: &["openstackclusters", "openstackmachines", "openstackmachines/status"],
        verbs: CHANGE,
    },
    Rule {
        user: "system:capstan:openstackmachine-controller",
        groups: &["cluster.x-k8s.io"],
        resources: &["clusters", "machines"],
        verbs: READ,
    },
    Rule {
        user: "system:capstan:openstackmachine-controller",
        groups: &["capstan.dev"],
        resources: &["machineoperations"],
        verbs: &["get"],
    },
    Rule {
        user: "system:capstan:openstackmachine-controller",
        groups: &[""],
        resources: &["secrets"],
        verbs: &["get"],
    },
    Rule {
        user: "system:capstan:machineoperation-controller",
        groups: &["capstan.dev"],
        resources: &["machineoperations", "machineoperations/status"],
        verbs: WRITE,
    },
    Rule {
        user: "system:capstan:machineoperation-controller",
        groups: &["cluster.x-k8s.io"],
        resources: &["clusters", "machines"],
        verbs: CHANGE,
    },
    Rule {
        user: "system:capstan:machineoperation-controller",
        groups: &["infrastructure.cluster.x-k8s.io"],
        resources: &["openstackclusters", "openstackmachines", "openstackmachines/status"],
        verbs: CHANGE,
    },
    Rule {
        user: "system:capstan:machineoperation-controller",
        groups: &[""],
        resources: &["secrets"],
        verbs: &["get"],
    },
    Rule {
        user: "system:capstan:garbage-collector",
        groups: &["*"],
        resources: &["*"],
        verbs: &["get", "list", "watch", "patch", "delete"],
    },
    Rule {
        user: "system:capstan:namespace-controller",
        groups: &["*"],
        resources: &["*"],
        verbs: &["get", "list", "watch", "delete", "deletecollection"],
    },
    Rule {
        user: "system:capstan:namespace-controller",
        groups: &[""],
        resources: &["namespaces/finalize", "namespaces/status"],
        verbs: &["update"],
    },
    Rule {
        user: "system:capstan:event-expiry",
        groups: &[""],
        resources: &["events"],
        verbs: &["list", "delete"],
    },
    Rule { user: "system:capstan:host-events", groups: &[""], resources: &["events"], verbs: READ },
    Rule {
        user: "system:capstan:leader-election",
        groups: &["coordination.k8s.io"],
        resources: &["leases"],
        verbs: WRITE,
    },
    Rule {
        user: "system:capstan:leader-election",
        groups: &[""],
        resources: &["namespaces"],
        verbs: &["get", "create"],
    },
];

/// Controllers tell people what they did.
const EVENT_VERBS: &[&str] = &["create", "patch", "update", "get"];

/// The rules that hold on every face, host or none.
#[derive(Debug, Clone, Copy, Default)]
pub struct LocalPolicy;

#[async_trait]
impl Authorizer for LocalPolicy {
    async fn authorize(&self, attributes: &Attributes) -> Decision {
        if allows(attributes) { Decision::Allow } else { Decision::NoOpinion(String::new()) }
    }

    async fn explain(&self, attributes: &Attributes) -> (Decision, String) {
        (self.authorize(attributes).await, "local policy".to_owned())
    }

    async fn rules(&self, user: &User, _namespace: &str) -> Rules {
        Rules { rules: rules(user), unknown: String::new() }
    }
}

fn allows(attributes: &Attributes) -> bool {
    let user = &attributes.user;
    if user.is_in(MASTERS) {
        return true;
    }
    if !attributes.is_resource() {
        let below = |roots: &[&str]| {
            let path = attributes.path.as_str();
            roots.iter().any(|root| {
                path.strip_prefix(root).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
            })
        };
        let reading = attributes.verb == "get";
        return reading
            && (PUBLIC.contains(&attributes.path.as_str())
                || (user.is_in(AUTHENTICATED) && below(&DISCOVERY)));
    }
    if user.is_in(AUTHENTICATED) && asks_about_oneself(attributes) {
        return true;
    }
    user.name.starts_with("system:capstan:")
        && user.is_in("system:capstan:controllers")
        && is_ruled(attributes)
}

fn asks_about_oneself(attributes: &Attributes) -> bool {
    let known = OWN_QUESTIONS.iter().any(|(group, questions)| {
        attributes.group == *group && questions.contains(&attributes.resource.as_str())
    });
    known && attributes.verb == "create" && attributes.subresource.is_empty()
}

/// The same policy as a list.
fn rules(user: &User) -> Vec<authorizer::Rule> {
    let texts = |list: &[&str]| list.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
    let on = |verbs: &[&str], groups: &[&str], resources: &[&str]| authorizer::Rule {
        verbs: texts(verbs),
        groups: texts(groups),
        resources: texts(resources),
        paths: Vec::new(),
    };
    let reads = |roots: &[&str]| authorizer::Rule {
        verbs: texts(&["get"]),
        paths: roots.iter().flat_map(|root| [(*root).to_owned(), format!("{root}/*")]).collect(),
        ..authorizer::Rule::default()
    };
    let public = authorizer::Rule { verbs: texts(&["get"]), paths: texts(&PUBLIC), ..Default::default() };
    let mut rules = vec![public];
    if user.is_in(AUTHENTICATED) {
        rules.extend(OWN_QUESTIONS.iter().map(|(group, questions)| on(&["create"], &[group], questions)));
        rules.push(reads(&DISCOVERY));
    }
    if user.is_in(MASTERS) {
        rules.push(on(&["*"], &["*"], &["*"]));
        rules.push(authorizer::Rule { verbs: texts(&["*"]), paths: texts(&["*"]), ..Default::default() });
    }
    if user.is_in("system:capstan:controllers") {
        let own = RULES.iter().filter(|rule| rule.user == user.name);
        rules.extend(own.map(|rule| on(rule.verbs, rule.groups, rule.resources)));
        rules.push(on(EVENT_VERBS, &[""], &["events"]));
    }
    rules
}

fn is_ruled(attributes: &Attributes) -> bool {
    let resource = if attributes.subresource.is_empty() {
        attributes.resource.clone()
    } else {
        format!("{}/{}", attributes.resource, attributes.subresource)
    };
    let has = |list: &[&str], wanted: &str| list.iter().any(|entry| *entry == "*" || *entry == wanted);
    if attributes.group.is_empty() && resource == "events" && has(EVENT_VERBS, &attributes.verb) {
        return true;
    }
    RULES.iter().any(|rule| {
        rule.user == attributes.user.name
            && has(rule.groups, &attributes.group)
            && has(rule.resources, &resource)
            && has(rule.verbs, &attributes.verb)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::user::User;

    fn ask(user: User, verb: &str, resource: &str, path: &str) -> bool {
        allows(&Attributes {
            user: user.into(),
            verb: verb.to_owned(),
            group: "cluster.x-k8s.io".to_owned(),
            resource: resource.to_owned(),
            path: path.to_owned(),
            ..Attributes::default()
        })
    }

    fn asks(user: User, verb: &str, resource: &str) -> bool {
        allows(&Attributes {
            user: user.into(),
            verb: verb.to_owned(),
            group: "authorization.k8s.io".to_owned(),
            resource: resource.to_owned(),
            ..Attributes::default()
        })
    }

    #[test]
    fn the_list_says_what_the_policy_does() {
        let bob = rules(&User::authenticated("bob", []));
        assert!(bob.iter().any(|rule| rule.resources == ["selfsubjectreviews"]), "{bob:?}");
        assert!(!bob.iter().any(|rule| rule.resources == ["*"]), "{bob:?}");
        let master = rules(&User::authenticated("a", ["system:masters".to_owned()]));
        assert!(master.iter().any(|rule| rule.resources == ["*"] && rule.verbs == ["*"]));
        assert_eq!(rules(&User::anonymous()).len(), 1);
    }

    #[test]
    fn everybody_gets_what_the_policy_says_and_no_more() {
        let master = || User::authenticated("a", ["system:masters".to_owned()]);
        let bob = || User::authenticated("bob", []);
        let controller = || {
            User::authenticated(
                "system:capstan:machine-controller",
                ["system:capstan:controllers".to_owned()],
            )
        };
        let impostor = || User::authenticated("system:capstan:machine-controller", []);
        let table = [
            ("master deletes", ask(master(), "delete", "machines", ""), true),
            ("bob lists", ask(bob(), "list", "machines", ""), false),
            ("bob discovers", ask(bob(), "get", "", "/apis/cluster.x-k8s.io/v1beta2"), true),
            ("bob reads metrics", ask(bob(), "get", "", "/metrics"), false),
            ("bob looks alike", ask(bob(), "get", "", "/apisx"), false),
            ("nobody checks health", ask(User::anonymous(), "get", "", "/readyz"), true),
            ("nobody looks closer", ask(User::anonymous(), "get", "", "/readyz/etcd"), false),
            ("bob looks closer", ask(bob(), "get", "", "/livez/ping"), false),
            ("nobody asks for the version", ask(User::anonymous(), "get", "", "/version"), true),
            ("nobody asks for more", ask(User::anonymous(), "get", "", "/version/x"), false),
            ("bob looks for tokens' keys", ask(bob(), "get", "", "/.well-known/openid-configuration"), false),
            ("nobody discovers", ask(User::anonymous(), "get", "", "/apis"), false),
            ("nobody posts health", ask(User::anonymous(), "post", "", "/readyz"), false),
            ("controller patches", ask(controller(), "patch", "machines", ""), true),
            ("controller deletes", ask(controller(), "delete", "machines", ""), false),
            ("a user named like a controller", ask(impostor(), "patch", "machines", ""), false),
            ("bob asks what he may", asks(bob(), "create", "selfsubjectaccessreviews"), true),
            ("bob asks what others may", asks(bob(), "create", "subjectaccessreviews"), false),
            ("nobody asks", asks(User::anonymous(), "create", "selfsubjectaccessreviews"), false),
        ];
        for (case, found, expected) in table {
            assert_eq!(found, expected, "{case}");
        }
    }
}
