//! Evidence that a load balancer is that of a Service of the workload cluster. Pure.
//!
//! Several workload clusters of a project may have the same name, so a name alone proves nothing. On a network that Capstan
//! created, the network proves it. On another network, the members do: they were noted as the cluster's machines.

use std::collections::BTreeSet;

use controllers_infrastructure::LoadBalancer;

use super::workload_notes::WorkloadNotes;

/// Start of the names and tags that the cloud provider gives to load balancers of Services.
pub(super) const SERVICE_PREFIX: &str = "kube_service_";

/// Service of a load balancer, as its description names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Service {
    /// Namespace and name.
    pub name: String,
    /// Name that the workload cluster has for the cloud provider.
    pub cluster: String,
}

/// Returns the Service of a load balancer, if it has one.
pub(super) fn service(balancer: &LoadBalancer) -> Option<Service> {
    let text = balancer.description.strip_prefix("Kubernetes external service ")?;
    let (name, cluster) = text.split_once(" from cluster ")?;
    Some(Service { name: name.to_owned(), cluster: cluster.to_owned() })
}

/// Returns true if OpenStack's cloud provider, or its controller of Ingresses, created a load balancer.
pub(super) fn is_of_kubernetes(balancer: &LoadBalancer) -> bool {
    service(balancer).is_some()
        || [SERVICE_PREFIX, "kube_ingress"].iter().any(|prefix| balancer.name.starts_with(prefix))
}

/// Returns true if Services of other workload clusters use a load balancer, too. Its tags name all of them.
pub(super) fn is_shared(balancer: &LoadBalancer) -> bool {
    let Some(service) = service(balancer) else { return false };
    let own = format!("{SERVICE_PREFIX}{}_", service.cluster);
    balancer.tags.iter().any(|tag| tag.starts_with(SERVICE_PREFIX) && !tag.starts_with(&own))
}

/// Returns true if a Service of a workload cluster with this name uses a load balancer.
fn serves(balancer: &LoadBalancer, cluster: &str) -> bool {
    let own = format!("{SERVICE_PREFIX}{cluster}_");
    balancer.tags.iter().any(|tag| tag.starts_with(&own))
}

/// Networks and names by which a load balancer is judged.
#[derive(Debug, Clone, Default)]
pub(super) struct Evidence {
    /// Network that Capstan created for the cluster.
    pub created: Option<String>,
    /// Network of another owner that the cluster uses.
    pub existing: Option<String>,
    /// Ids of the load balancers that the user has deleted.
    pub named: Vec<String>,
    /// Notes about the workload cluster.
    pub notes: WorkloadNotes,
}

impl Evidence {
    /// Returns true if no load balancer can be the cluster's.
    pub(super) fn is_empty(&self) -> bool {
        let has_network = self.created.is_some() || self.existing.is_some();
        !has_network && self.named.is_empty() && self.notes.load_balancers.is_empty()
    }

    /// Returns true if the workload cluster showed its name while it lived.
    pub(super) fn knows_name(&self) -> bool {
        self.notes.cloud_provider_name.is_some()
    }
}

/// Owner of a load balancer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It is deleted with the cluster.
    Deleted,
    /// It may be the cluster's. It stays, and is named.
    Unclear,
    /// Its members decide: it may be that of a Service on the created network, or one that clusters share.
    ByMembers,
    /// It is not the cluster's.
    Other,
}

/// Judges a load balancer by what a list shows.
pub(super) fn verdict(balancer: &LoadBalancer, evidence: &Evidence) -> Verdict {
    if balancer.provisioning_status == "DELETED" {
        return Verdict::Other;
    }
    if evidence.named.contains(&balancer.id) {
        return Verdict::Deleted;
    }
    if !is_of_kubernetes(balancer) {
        return Verdict::Other;
    }
    let is_on = |network: &Option<String>| network.as_ref() == Some(&balancer.vip_network_id);
    if evidence.created.is_some() {
        return if is_on(&evidence.created) { Verdict::Deleted } else { Verdict::ByMembers };
    }
    let noted = evidence.notes.load_balancers.contains(&balancer.id);
    match (service(balancer), &evidence.notes.cloud_provider_name) {
        (Some(service), Some(name)) if service.cluster != *name => {
            if serves(balancer, name) {
                Verdict::ByMembers
            } else {
                Verdict::Other
            }
        }
        (Some(_), Some(_)) if noted => Verdict::Deleted,
        _ if noted || is_on(&evidence.existing) => Verdict::Unclear,
        _ => Verdict::Other,
    }
}

/// Machines behind a load balancer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Members {
    /// All are machines of the cluster.
    Ours,
    /// One is a machine of another owner.
    Foreign,
    /// There are none, or some have no port any more.
    Unclear,
}

/// Returns whose machines have these addresses. `ours` and `others` are the addresses of existing ports.
pub(super) fn whose(addresses: &[String], ours: &BTreeSet<String>, others: &BTreeSet<String>) -> Members {
    if addresses.iter().any(|address| others.contains(address)) {
        return Members::Foreign;
    }
    if !addresses.is_empty() && addresses.iter().all(|address| ours.contains(address)) {
        return Members::Ours;
    }
    Members::Unclear
}

#[cfg(test)]
mod tests {
    use super::*;

    fn balancer(name: &str, description: &str, network: &str) -> LoadBalancer {
        LoadBalancer {
            id: format!("id-{name}"),
            name: name.to_owned(),
            description: description.to_owned(),
            vip_network_id: network.to_owned(),
            provisioning_status: "ACTIVE".to_owned(),
            ..LoadBalancer::default()
        }
    }

    const WEB: &str = "kube_service_kubernetes_default_web";
    const OF_WEB: &str = "Kubernetes external service default/web from cluster kubernetes";

    #[test]
    fn r17_3_only_load_balancers_of_services_on_our_network_and_named_ones_are_leftovers() {
        let table = [
            (balancer(WEB, OF_WEB, "ours"), Verdict::Deleted),
            (balancer("a0123456789abcdef", OF_WEB, "ours"), Verdict::Deleted),
            (balancer("kube_ingress_web", "", "ours"), Verdict::Deleted),
            (balancer(WEB, OF_WEB, "theirs"), Verdict::ByMembers),
            (balancer("database", "of the user", "ours"), Verdict::Other),
            (balancer("named", "of the user", "theirs"), Verdict::Deleted),
        ];
        let named = vec!["id-named".to_owned()];
        let created =
            Evidence { created: Some("ours".to_owned()), named: named.clone(), ..Evidence::default() };
        let none = Evidence { named, ..Evidence::default() };
        for (balancer, expected) in table {
            assert_eq!(verdict(&balancer, &created), expected, "{}", balancer.name);
            let is_named = balancer.name == "named";
            let expected = if is_named { Verdict::Deleted } else { Verdict::Other };
            assert_eq!(verdict(&balancer, &none), expected, "{}", balancer.name);
        }
    }

    /// Load balancers on the network of another owner were neither deleted nor named.
    #[test]
    fn r17_3_on_an_existing_network_the_members_and_the_learned_name_decide_together() {
        let evidence = |noted: bool, name: Option<&str>| Evidence {
            existing: Some("shared".to_owned()),
            notes: WorkloadNotes {
                cloud_provider_name: name.map(str::to_owned),
                load_balancers: if noted { vec![format!("id-{WEB}")] } else { Vec::new() },
                ..WorkloadNotes::default()
            },
            ..Evidence::default()
        };
        let web = |network: &str| balancer(WEB, OF_WEB, network);
        let table = [
            (true, Some("kubernetes"), "shared", Verdict::Deleted),
            (true, Some("kubernetes"), "elsewhere", Verdict::Deleted),
            (true, Some("prod"), "shared", Verdict::Other),
            (true, None, "shared", Verdict::Unclear),
            (true, None, "elsewhere", Verdict::Unclear),
            (false, Some("kubernetes"), "shared", Verdict::Unclear),
            (false, None, "shared", Verdict::Unclear),
            (false, Some("prod"), "shared", Verdict::Other),
            (false, Some("kubernetes"), "elsewhere", Verdict::Other),
        ];
        for (noted, name, network, expected) in table {
            let found = verdict(&web(network), &evidence(noted, name));
            assert_eq!(found, expected, "noted {noted}, name {name:?}, on {network}");
        }
        let mut shared = web("elsewhere");
        shared.tags = vec![WEB.to_owned(), "kube_service_prod_default_web".to_owned()];
        assert_eq!(verdict(&shared, &evidence(false, Some("prod"))), Verdict::ByMembers, "made by another");
        assert!(Evidence::default().is_empty() && !evidence(false, None).is_empty());
    }

    #[test]
    fn r17_3_members_are_ours_only_if_all_are_and_no_one_else_has_their_addresses() {
        let set = |list: &[&str]| list.iter().map(|it| (*it).to_owned()).collect::<BTreeSet<String>>();
        let of = |members: &[&str]| {
            let members: Vec<String> = members.iter().map(|it| (*it).to_owned()).collect();
            whose(&members, &set(&["10.0.0.1", "10.0.0.2"]), &set(&["10.0.0.9"]))
        };
        assert_eq!(of(&["10.0.0.1", "10.0.0.2"]), Members::Ours);
        assert_eq!(of(&["10.0.0.1", "10.0.0.9"]), Members::Foreign);
        assert_eq!(of(&["10.0.0.1", "10.0.0.3"]), Members::Unclear);
        assert_eq!(of(&[]), Members::Unclear);
    }

    #[test]
    fn r17_3_a_load_balancer_with_services_of_two_clusters_is_shared() {
        let text = "Kubernetes external service default/web from cluster prod";
        let mut balancer = balancer("kube_service_prod_default_web", text, "ours");
        let expected = Service { name: "default/web".to_owned(), cluster: "prod".to_owned() };
        assert_eq!(service(&balancer), Some(expected));
        balancer.tags = vec!["kube_service_prod_default_web".to_owned()];
        assert!(!is_shared(&balancer));
        balancer.tags.push("kube_service_prod2_default_web".to_owned());
        assert!(is_shared(&balancer));
    }
}
