//! Constrained impersonation, as upstream has it since 1.36: one permission for the identity, and one for the action under
//! it. A user with both needs no permission to impersonate without limits.

use std::sync::Arc;

use apiserver_access::{Attributes, User};

use super::Impersonation;
use crate::filters::authorization;
use crate::state::ApiServer;

/// API group of the identities.
const GROUP: &str = "authentication.k8s.io";

/// Begin of the names of nodes.
const NODE: &str = "system:node:";

/// Begin of the names of service accounts.
const SERVICE_ACCOUNT: &str = "system:serviceaccount:";

/// Extra attribute of a service account's token that is bound to a Pod: the node of the Pod.
const OWN_NODE: &str = "authentication.kubernetes.io/node-name";

/// Name in the permission for the node that the caller runs on.
const ANY: &str = "*";

/// Group that no constrained mode gives.
const MASTERS: &str = "system:masters";

/// Mode, and the identities that the caller must be allowed to impersonate in it: resource, subresource, namespace and
/// name.
#[derive(Debug, PartialEq, Eq)]
struct Mode {
    name: &'static str,
    identities: Vec<(&'static str, String, String, String)>,
}

/// Returns the verb of the mode that allows the impersonation; `None` if no mode does. An authorizer that cannot decide
/// allows nothing: the check of unlimited impersonation comes next, and reports the error.
pub(super) async fn allowed(
    server: &ApiServer,
    wanted: &Impersonation,
    request: &Attributes,
    proxied: bool,
) -> Option<String> {
    for mode in modes(wanted, &request.user) {
        if is_allowed(server, &mode, request, proxied).await {
            return Some(format!("impersonate:{}", mode.name));
        }
    }
    None
}

async fn is_allowed(server: &ApiServer, mode: &Mode, request: &Attributes, proxied: bool) -> bool {
    let action =
        Attributes { verb: format!("impersonate-on:{}:{}", mode.name, request.verb), ..request.clone() };
    if authorization::require(server, &action, proxied).await.is_err() {
        return false;
    }
    for (resource, subresource, namespace, name) in &mode.identities {
        let identity = Attributes {
            user: Arc::clone(&request.user),
            verb: format!("impersonate:{}", mode.name),
            group: GROUP.to_owned(),
            version: "v1".to_owned(),
            resource: (*resource).to_owned(),
            subresource: subresource.clone(),
            namespace: namespace.clone(),
            name: name.clone(),
            ..Attributes::default()
        };
        if authorization::require(server, &identity, proxied).await.is_err() {
            return false;
        }
    }
    true
}

/// Returns the modes that fit the identity, in the order in which they are tried. Nodes and service accounts have the
/// groups that follow from their names, so these modes fit only if nothing but the name is given.
fn modes(wanted: &Impersonation, caller: &User) -> Vec<Mode> {
    let none = String::new;
    let is_name_only = wanted.groups.is_empty() && wanted.uid.is_none() && wanted.extra.is_empty();
    if let Some(node) = wanted.user.strip_prefix(NODE) {
        if !is_name_only || node.is_empty() {
            return Vec::new();
        }
        let of =
            |name, node: &str| Mode { name, identities: vec![("nodes", none(), none(), node.to_owned())] };
        let is_own = caller.name.starts_with(SERVICE_ACCOUNT)
            && caller.extra.get(OWN_NODE).is_some_and(|own| own.as_slice() == [node.to_owned()]);
        let associated = is_own.then(|| of("associated-node", ANY));
        return associated.into_iter().chain([of("arbitrary-node", node)]).collect();
    }
    if wanted.user.starts_with(SERVICE_ACCOUNT) {
        let account = wanted.service_account().filter(|_| is_name_only);
        let mode = account.map(|(namespace, name)| Mode {
            name: "serviceaccount",
            identities: vec![("serviceaccounts", none(), namespace.to_owned(), name.to_owned())],
        });
        return mode.into_iter().collect();
    }
    if wanted.groups.iter().any(|group| group == MASTERS) {
        return Vec::new();
    }
    let mut identities = vec![("users", none(), none(), wanted.user.clone())];
    identities.extend(wanted.groups.iter().map(|group| ("groups", none(), none(), group.clone())));
    identities.extend(wanted.uid.iter().map(|uid| ("uids", none(), none(), uid.clone())));
    for (key, values) in &wanted.extra {
        identities.extend(values.iter().map(|value| ("userextras", key.clone(), none(), value.clone())));
    }
    vec![Mode { name: "user-info", identities }]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(user: &str) -> Impersonation {
        Impersonation { user: user.to_owned(), ..Impersonation::default() }
    }

    /// Returns each mode with its identities.
    fn shown(wanted: &Impersonation, caller: &User) -> Vec<String> {
        let identity = |(resource, subresource, namespace, name): &(&str, String, String, String)| {
            format!("{resource}/{subresource} {namespace}/{name}")
        };
        let mode = |mode: Mode| {
            let identities: Vec<String> = mode.identities.iter().map(identity).collect();
            format!("{}: {}", mode.name, identities.join(", "))
        };
        modes(wanted, caller).into_iter().map(mode).collect()
    }

    #[test]
    fn the_form_of_the_name_selects_the_modes() {
        let caller = User::authenticated("alice", []);
        assert_eq!(shown(&wanted("bob"), &caller), ["user-info: users/ /bob"]);
        let account = wanted("system:serviceaccount:ns:sa");
        assert_eq!(shown(&account, &caller), ["serviceaccount: serviceaccounts/ ns/sa"]);
        assert!(shown(&wanted("system:serviceaccount:ns:"), &caller).is_empty());
        assert_eq!(shown(&wanted("system:node:n1"), &caller), ["arbitrary-node: nodes/ /n1"]);
        let mut agent = User::authenticated("system:serviceaccount:ns:agent", []);
        agent.extra.insert(OWN_NODE.to_owned(), vec!["n1".to_owned()]);
        let both = ["associated-node: nodes/ /*", "arbitrary-node: nodes/ /n1"];
        assert_eq!(shown(&wanted("system:node:n1"), &agent), both);
        assert_eq!(shown(&wanted("system:node:n2"), &agent), ["arbitrary-node: nodes/ /n2"]);

        let more = |user: &str, group: &str| {
            let extra = [("k".to_owned(), vec!["v".to_owned()])].into();
            Impersonation { groups: vec![group.to_owned()], uid: Some("7".to_owned()), extra, ..wanted(user) }
        };
        let expected = ["user-info: users/ /bob, groups/ /dev, uids/ /7, userextras/k /v"];
        assert_eq!(shown(&more("bob", "dev"), &caller), expected);
        for (user, group) in
            [("bob", MASTERS), ("system:serviceaccount:ns:sa", "dev"), ("system:node:n1", "dev")]
        {
            assert!(shown(&more(user, group), &caller).is_empty(), "{user} {group}");
        }
    }
}
