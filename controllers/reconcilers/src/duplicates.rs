//! Duplicates: several resources with one name and the ownership tag of one object.
//!
//! A create call whose response was lost is repeated after a while, and a list of the cloud may be older than the call.
//! Then two resources exist. One is adopted. The others are deleted, unless something uses them.

use std::collections::BTreeSet;
use std::sync::Arc;

use controllers_infrastructure::{
    Cloud, ErrorClass, FloatingIp, Network, Port, Router, SecurityGroup, Server, Subnet, Volume,
};
use controllers_runtime::ReconcileError;

use crate::names;

/// Reason of an object with several resources in use.
pub(crate) const AMBIGUOUS: &str = "Ambiguous";

/// Resource that may be one of several.
pub(crate) trait Candidate {
    /// Returns the id.
    fn id(&self) -> &str;
    /// Returns the time of creation.
    fn created_at(&self) -> &str;
    /// Returns true if its own fields show that something uses it. The cloud deletes such a resource without an error.
    fn is_attached(&self) -> bool;
}

macro_rules! candidate {
    ($($kind:ty: $attached:expr;)*) => {
        $(impl Candidate for $kind {
            fn id(&self) -> &str {
                &self.id
            }

            fn created_at(&self) -> &str {
                &self.created_at
            }

            fn is_attached(&self) -> bool {
                let attached: fn(&Self) -> bool = $attached;
                attached(self)
            }
        })*
    };
}

candidate! {
    Network: |it| !it.subnets.is_empty();
    // Neutron refuses to delete these while they are in use.
    Subnet: |_| false;
    Router: |_| false;
    SecurityGroup: |_| false;
    Port: |it| !it.device_id.is_empty();
    FloatingIp: |it| it.port_id.is_some();
    Volume: |it| !it.servers.is_empty();
    Server: |it| !it.addresses.is_empty();
}

/// Resource beside the one that was adopted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Duplicate {
    /// Kind, as in the journal.
    pub kind: &'static str,
    /// Id.
    pub id: String,
    /// Something uses it.
    pub attached: bool,
}

impl Duplicate {
    /// Returns the kind and the id, for messages.
    pub(crate) fn title(&self) -> String {
        format!("{} {}", self.kind, self.id)
    }
}

/// Sorts resources: the one to adopt comes first. It is the oldest that is attached or in `used`, else the oldest.
pub(crate) fn sort<T: Candidate>(found: &mut [T], used: &BTreeSet<String>) {
    found.sort_by(|one, other| {
        let key = |it: &T| !(it.is_attached() || used.contains(it.id()));
        let date = one.created_at().cmp(other.created_at()).then_with(|| one.id().cmp(other.id()));
        key(one).cmp(&key(other)).then(date)
    });
}

/// Returns the first of sorted resources, and notes the others.
pub(crate) fn adopt<T: Candidate>(
    kind: &'static str,
    found: Vec<T>,
    duplicates: &mut Vec<Duplicate>,
) -> Option<T> {
    let mut found = found.into_iter();
    let first = found.next();
    let others = found.map(|it| Duplicate { kind, id: it.id().to_owned(), attached: it.is_attached() });
    duplicates.extend(others);
    first
}

/// Remedy for duplicates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Remedy {
    /// Delete this one.
    Delete(Duplicate),
    /// Leave them to the user, and say this.
    Refuse(String),
}

/// Decides on duplicates. Pure.
pub(crate) fn remedy(duplicates: &[Duplicate]) -> Option<Remedy> {
    let used: Vec<&Duplicate> = duplicates.iter().filter(|it| it.attached).collect();
    if !used.is_empty() {
        return Some(Remedy::Refuse(message(&used)));
    }
    duplicates.first().cloned().map(Remedy::Delete)
}

/// Returns the error of duplicates in use.
pub(crate) fn refusal(message: String) -> ReconcileError {
    ReconcileError::waiting(AMBIGUOUS, message)
}

fn message(used: &[&Duplicate]) -> String {
    let names: Vec<String> = used.iter().map(|it| it.title()).collect();
    let names = names.join(", ");
    format!(
        "the cloud has more than one resource of a name with the tag of this object, and these are in use, too: {names}. \
         Find out what uses them, and delete them"
    )
}

/// Deletes a duplicate that nothing uses. Returns reason and message of an Event.
pub(crate) async fn delete(
    cloud: &Arc<dyn Cloud>,
    duplicate: &Duplicate,
) -> Result<(&'static str, String), ReconcileError> {
    let id = duplicate.id.as_str();
    let result = match duplicate.kind {
        names::NETWORK => cloud.delete_network(id).await,
        names::SUBNET => cloud.delete_subnet(id).await,
        names::ROUTER => cloud.delete_router(id).await,
        names::SECURITY_GROUP => cloud.delete_security_group(id).await,
        names::PORT | names::VIP_PORT => cloud.delete_port(id).await,
        names::FLOATING_IP => cloud.delete_floating_ip(id).await,
        names::SERVER => cloud.delete_server(id).await,
        names::VOLUME => cloud.delete_volume(id).await,
        _ => Ok(()),
    };
    match result {
        Err(error) if error.class == ErrorClass::Conflict => Err(refusal(message(&[duplicate]))),
        Err(error) if !error.is_not_found() => Err(error.into()),
        _ => Ok(("DeletedDuplicate", format!("deleted {} {id}, of which there was another", duplicate.kind))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn port(id: &str, created_at: &str, device: &str) -> Port {
        let text = str::to_owned;
        Port { id: text(id), created_at: text(created_at), device_id: text(device), ..Port::default() }
    }

    #[test]
    fn r2_5_the_oldest_resource_in_use_is_adopted_and_the_others_go_if_nothing_uses_them() {
        let table = [
            // The oldest, if none is in use.
            (vec![port("a", "2026-02", ""), port("b", "2026-01", "")], "", "b", Some(("a", false))),
            // The one in use, although it is younger.
            (vec![port("a", "2026-02", "s"), port("b", "2026-01", "")], "", "a", Some(("b", false))),
            (vec![port("a", "2026-02", ""), port("b", "2026-01", "")], "a", "a", Some(("b", false))),
            // Both are in use.
            (vec![port("a", "2026-02", "s"), port("b", "2026-01", "t")], "", "b", Some(("a", true))),
            (vec![port("a", "2026-02", "")], "", "a", None),
        ];
        for (mut found, used, chosen, other) in table {
            let used: BTreeSet<String> = [used.to_owned()].into();
            sort(&mut found, &used);
            let mut duplicates = Vec::new();
            assert_eq!(adopt(names::PORT, found, &mut duplicates).unwrap().id, chosen);
            match (remedy(&duplicates), other) {
                (None, None) => {}
                (Some(Remedy::Delete(it)), Some((id, false))) => assert_eq!(it.id, id),
                (Some(Remedy::Refuse(text)), Some((id, true))) => {
                    assert!(text.contains(&format!("port {id}.")), "{text}");
                    assert_eq!(refusal(text).reason(), "Ambiguous");
                }
                unexpected => panic!("{unexpected:?}"),
            }
        }
        assert_eq!(adopt::<Port>(names::PORT, Vec::new(), &mut Vec::new()), None);
    }
}
