//! Authorizer of the roles and bindings in our own store.

use std::sync::Arc;

use arc_swap::ArcSwapOption;
use async_trait::async_trait;

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
    snapshot: ArcSwapOption<Snapshot>,
}

impl RbacAuthorizer {
    /// Replaces the snapshot, from the next request on.
    pub fn set(&self, snapshot: Snapshot) {
        self.snapshot.store(Some(Arc::new(snapshot)));
    }
}

#[async_trait]
impl Authorizer for RbacAuthorizer {
    async fn authorize(&self, attributes: &Attributes) -> Decision {
        self.explain(attributes).await.0
    }

    async fn explain(&self, attributes: &Attributes) -> (Decision, String) {
        let verdict = self.judge(attributes).await;
        (verdict.decision, verdict.reason)
    }

    async fn judge(&self, attributes: &Attributes) -> Verdict {
        // Bindings give nothing to the server's own identities: their permissions are constant.
        if attributes.user.controller_identity().is_some() {
            return Verdict::new((Decision::NoOpinion(String::new()), String::new()), NAME);
        }
        match &*self.snapshot.load() {
            Some(snapshot) => snapshot.judge(attributes),
            None => Verdict::new((Decision::Error(UNREAD.to_owned()), String::new()), NAME),
        }
    }

    async fn answers(&self, attributes: &Attributes) -> Answers {
        let verdict = self.judge(attributes).await;
        if attributes.user.controller_identity().is_some() {
            return Answers::explained(verdict, "bindings give nothing to the server's own identities");
        }
        match &*self.snapshot.load() {
            Some(snapshot) => Answers::explained(verdict, snapshot.explain(attributes).1),
            None => Answers::one(verdict),
        }
    }

    fn name(&self) -> &'static str {
        NAME
    }

    async fn rules(&self, user: &User, namespace: &str) -> Rules {
        if user.controller_identity().is_some() {
            return Rules::default();
        }
        match &*self.snapshot.load() {
            Some(snapshot) => Rules {
                rules: snapshot.rules(user, namespace),
                unknown: snapshot.missing_roles(user, namespace),
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
            assert_eq!(block(authorizer.explain(&attributes(verb))), (verdict.decision, verdict.reason));
        }
    }
}
