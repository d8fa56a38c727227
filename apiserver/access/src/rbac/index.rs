//! Index of the bindings of one scope by their subjects.

use std::collections::HashMap;

use super::policy::{Binding, Subject};
use crate::user::{AUTHENTICATED, Realm, UNAUTHENTICATED, User};

/// Prefix of the user names of service accounts.
const SERVICE_ACCOUNT: &str = "system:serviceaccount:";

/// Place of a subject: the binding's number, and the subject's number in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) binding: usize,
    pub(super) subject: usize,
    /// True if the subject may be an identity of the host cluster.
    admits_host: bool,
}

/// Bindings of one namespace, or those of the cluster, by subject.
#[derive(Debug, Default)]
pub(super) struct SubjectIndex {
    /// By user name. A service account has one, too.
    users: HashMap<String, Vec<Place>>,
    groups: HashMap<String, Vec<Place>>,
}

impl SubjectIndex {
    /// Adds a binding under its number.
    pub(super) fn add(&mut self, number: usize, binding: &Binding) {
        for (subject, found) in binding.subjects.iter().enumerate() {
            let admits_host = binding.admits_host;
            let place = Place { binding: number, subject, admits_host };
            match found {
                Subject::User(name) => self.users.entry(name.clone()).or_default().push(place),
                Subject::Group(name) => {
                    let place = Place { admits_host: admits_host || is_of_everyone(name), ..place };
                    self.groups.entry(name.clone()).or_default().push(place);
                }
                Subject::ServiceAccount { namespace, name } => {
                    let namespace = if namespace.is_empty() { &binding.namespace } else { namespace };
                    if !namespace.is_empty() {
                        let user = format!("{SERVICE_ACCOUNT}{namespace}:{name}");
                        self.users.entry(user).or_default().push(place);
                    }
                }
            }
        }
    }

    /// Returns the places of the subjects that the user is. A user without a scope is only in the groups of all users.
    pub(super) fn of<'a>(&'a self, user: &'a User) -> impl Iterator<Item = Place> + 'a {
        let is_unscoped = user.is_unscoped();
        let named = self.users.get(&user.name).filter(|_| !is_unscoped);
        let groups = user.groups.iter().filter(move |group| !is_unscoped || is_of_everyone(group));
        let groups = groups.filter_map(|group| self.groups.get(group));
        let found = named.into_iter().chain(groups).flatten().copied();
        found.filter(|place| place.admits_host || user.realm != Realm::Host)
    }
}

/// Returns true for a group of all users.
pub(super) fn is_of_everyone(group: &str) -> bool {
    group == AUTHENTICATED || group == UNAUTHENTICATED
}
