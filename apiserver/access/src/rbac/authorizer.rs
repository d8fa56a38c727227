//! Authorizer of the roles and bindings in our own store.

use std::sync::Arc;

use arc_swap::ArcSwapOption;
use async_trait::async_trait;

use super::policy::Counted;
use super::snapshot::Snapshot;
use crate::answers::Answers;
use crate::authorizer::{Attributes, Authorizer, Decision, Rules, Verdict};
use crate::user::User;

/// Name in the audit log.
pub(super) const NAME: &str = "RBAC";

/// Name in the audit log if a role in a project of Keystone allows a request.
pub(super) const OF_PROJECTS: &str = "Keystone";

/// Reason while the roles have not been read. A refusal would be wrong then.
const UNREAD: &str = "roles and bindings have not been read yet; retry after a second";

/// Authorizer that decides by a snapshot of the roles and bindings. Requests read the snapshot without a lock.
#[derive(Debug, Default)]
pub struct RbacAuthorizer {
    /// `None` until the roles and bindings have been read.
    snapshot: Arc<ArcSwapOption<Snapshot>>,
    counted: Counted,
}

impl RbacAuthorizer {
    /// Returns the authorizer that decides by the bindings in the store alone. It shares the snapshot.
    #[must_use]
    pub fn of_stored_bindings(&self) -> Self {
        self.counting(Counted::Stored)
    }

    /// Returns the authorizer that decides by the roles in projects of Keystone alone. It shares the snapshot.
    #[must_use]
    pub fn of_projects(&self) -> Self {
        self.counting(Counted::OfProjects)
    }

    fn counting(&self, counted: Counted) -> Self {
        Self { snapshot: Arc::clone(&self.snapshot), counted }
    }

    /// Replaces the snapshot, from the next request on.
    pub fn set(&self, snapshot: Snapshot) {
        self.snapshot.store(Some(Arc::new(snapshot)));
    }
}

#[async_trait]
impl Authorizer for RbacAuthorizer {
    async fn judge(&self, attributes: &Attributes) -> Verdict {
        // Bindings give nothing to the server's own identities: their permissions are constant.
        if attributes.user.controller_identity().is_some() {
            return Verdict::new((Decision::NoOpinion(String::new()), String::new()), self.name());
        }
        match &*self.snapshot.load() {
            Some(snapshot) => snapshot.judge(attributes, self.counted),
            None => Verdict::new((Decision::Error(UNREAD.to_owned()), String::new()), self.name()),
        }
    }

    async fn answers(&self, attributes: &Attributes) -> Answers {
        let verdict = self.judge(attributes).await;
        if attributes.user.controller_identity().is_some() {
            return Answers::explained(verdict, "bindings give nothing to the server's own identities");
        }
        match &*self.snapshot.load() {
            Some(snapshot) => Answers::explained(verdict, snapshot.explain_by(attributes, self.counted).1),
            None => Answers::one(verdict),
        }
    }

    fn name(&self) -> &'static str {
        if self.counted == Counted::OfProjects { OF_PROJECTS } else { NAME }
    }

    async fn rules(&self, user: &User, namespace: &str) -> Rules {
        if user.controller_identity().is_some() {
            return Rules::default();
        }
        match &*self.snapshot.load() {
            Some(snapshot) => Rules {
                rules: snapshot.rules_by(user, namespace, self.counted),
                unknown: snapshot.missing_roles_by(user, namespace, self.counted),
            },
            None => Rules { rules: Vec::new(), unknown: UNREAD.to_owned() },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::authorizer::Rule;
    use crate::rbac::{Binding, Policy, Role, RoleRef, Subject};
    use crate::testing::block;

    fn binding(name: &str, of_project: bool) -> Binding {
        Binding {
            namespace: "team".to_owned(),
            name: name.to_owned(),
            role: RoleRef { is_cluster_role: true, name: "view".to_owned() },
            subjects: vec![Subject::Group("dev".to_owned())],
            of_project,
            ..Binding::default()
        }
    }

    fn snapshot(bindings: Vec<Binding>) -> Snapshot {
        let rule = Rule {
            verbs: vec!["get".to_owned()],
            groups: vec![String::new()],
            resources: vec!["pods".to_owned()],
            ..Rule::default()
        };
        let role = Role { namespace: String::new(), name: "view".to_owned(), rules: vec![rule] };
        Snapshot::new(Policy { roles: vec![role], bindings })
    }

    fn attributes(verb: &str) -> Attributes {
        Attributes {
            user: Arc::new(User::authenticated("alice", ["dev".to_owned()])),
            verb: verb.to_owned(),
            resource: "pods".to_owned(),
            namespace: "team".to_owned(),
            ..Attributes::default()
        }
    }

    #[test]
    fn iz_05_a_permission_by_a_project_of_keystone_has_another_origin_than_one_by_a_stored_binding() {
        let authorizer = RbacAuthorizer::default();
        let unread = block(authorizer.judge(&attributes("get")));
        assert_eq!(unread, Verdict::new((Decision::Error(UNREAD.to_owned()), String::new()), "RBAC"));
        let stored = "RBAC: allowed by RoleBinding \"b/team\" of ClusterRole \"view\" to Group \"dev\"";
        let of_project =
            "Keystone: the project of the namespace \"team\" gives ClusterRole \"view\" to Group \"dev\"";
        for (bindings, verb, origin, reason) in [
            (vec![binding("b", false), binding("p", true)], "get", "RBAC", stored),
            (vec![binding("p", true)], "get", "Keystone", of_project),
            (vec![binding("p", true)], "list", "RBAC", ""),
        ] {
            authorizer.set(snapshot(bindings));
            let verdict = block(authorizer.judge(&attributes(verb)));
            assert_eq!((verdict.authorizer.as_str(), verdict.why()), (origin, reason), "{verb}");
            let answers = block(authorizer.answers(&attributes(verb)));
            let [answer] = answers.each.as_slice() else { panic!("{answers:?}") };
            assert_eq!((&answer.authorizer, &answers.verdict), (&verdict.authorizer, &verdict));
            assert_eq!(block(authorizer.authorize(&attributes(verb))), verdict.decision);
        }
    }

    #[test]
    fn iz_01_the_authorizers_of_stored_bindings_and_of_projects_share_one_snapshot() {
        let all = RbacAuthorizer::default();
        let (stored, of_projects) = (all.of_stored_bindings(), all.of_projects());
        let in_no_project =
            "the namespace \"team\" is in no project in which the user has a role that counts";
        let user = attributes("get").user;
        for (bindings, by_stored, by_projects) in [
            (vec![binding("b", false), binding("p", true)], true, true),
            (vec![binding("b", false)], true, false),
            (vec![binding("p", true)], false, true),
            (vec![], false, false),
        ] {
            all.set(snapshot(bindings));
            for (authorizer, name, expected) in
                [(&stored, "RBAC", by_stored), (&of_projects, "Keystone", by_projects)]
            {
                let verdict = block(authorizer.judge(&attributes("get")));
                assert_eq!((verdict.decision == Decision::Allow, &*verdict.authorizer), (expected, name));
                assert_eq!(block(authorizer.rules(&user, "team")).rules.is_empty(), !expected, "{name}");
                let answers = block(authorizer.answers(&attributes("get")));
                let [answer] = answers.each.as_slice() else { panic!("{answers:?}") };
                let is_of_projects = answer.why() == in_no_project;
                assert_eq!(is_of_projects, name == "Keystone" && !expected, "{answer:?}");
            }
        }
        all.set(snapshot(vec![binding("p", true)]));
        let answers = block(of_projects.answers(&attributes("list")));
        let why = "no rule of the user's roles in the project of the namespace \"team\" allows it: ClusterRole \"view\"";
        assert_eq!(answers.each[0].why(), why);
        let everywhere = Attributes { namespace: String::new(), ..attributes("get") };
        let answers = block(of_projects.answers(&everywhere));
        assert_eq!(answers.each[0].why(), "roles in projects count in the namespaces of these projects only");
    }
}
