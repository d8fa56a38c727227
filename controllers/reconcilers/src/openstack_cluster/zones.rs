//! Availability zones of a cluster, which are its failure domains.

use std::collections::{BTreeMap, BTreeSet};

use apiserver_types::{FailureDomain, Machine, OpenStackCluster, Time};
use jiff::{SignedDuration, Timestamp};
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt};

use super::cluster_name;
use super::observe::Observed;

/// Attribute of a failure domain with the time since which Nova does not list its zone.
const ABSENT_SINCE: &str = "capstan.dev/absent-since";

/// Time after which an absent zone is no failure domain any more: Nova does not list a zone while its hosts restart.
const ABSENT: SignedDuration = SignedDuration::from_mins(10);

/// Returns a warning for each zone of control planes that the cloud does not have.
pub(super) fn unknown(object: &OpenStackCluster, observed: &Observed) -> Vec<(&'static str, String)> {
    let zones = object.spec.control_plane_availability_zones.iter().flatten();
    let unknown = zones.filter(|zone| !observed.zones.iter().any(|known| is_in(zone, known)));
    let message = |zone: &String| {
        let known = observed.zones.join(", ");
        format!("spec.controlPlaneAvailabilityZones: Nova has no zone {zone:?}; its zones are {known}")
    };
    unknown.map(|zone| ("AvailabilityZoneNotFound", message(zone))).collect()
}

/// Returns true if a text of a spec names this zone: alone, or as `zone:host`.
fn is_in(named: &str, zone: &str) -> bool {
    named.split(':').next() == Some(zone)
}

/// Returns the zones that Machines of the cluster name, if an earlier pass had zones that Nova does not list now.
pub(super) async fn named(
    client: &Client,
    object: &OpenStackCluster,
    observed: &Observed,
) -> Result<BTreeSet<String>, kube::Error> {
    let known = object.status.as_ref().and_then(|status| status.failure_domains.as_ref());
    let is_absent = |domain: &FailureDomain| !observed.zones.contains(&domain.name);
    if !known.is_some_and(|known| known.iter().any(is_absent)) {
        return Ok(BTreeSet::new());
    }
    let Some(cluster) = cluster_name(object) else { return Ok(BTreeSet::new()) };
    let api: Api<Machine> = Api::namespaced(client.clone(), &object.namespace().unwrap_or_default());
    let params = ListParams::default().labels(&format!("{}={cluster}", crate::CLUSTER_NAME_LABEL));
    Ok(api.list(&params).await?.items.into_iter().filter_map(|machine| machine.spec.failure_domain).collect())
}

/// Returns the failure domains after those of the last pass. With `omitted`, Nova places control planes, so none is
/// offered for them. A zone that Nova does not list any more stays for a while, and as long as a Machine names it. Pure.
pub(super) fn domains(
    before: Option<Vec<FailureDomain>>,
    observed: &Observed,
    omitted: bool,
    for_control_planes: &[String],
    now: &Time,
) -> Option<Vec<FailureDomain>> {
    if observed.zones.is_empty() {
        return before;
    }
    let offered = |zone: &String| {
        !omitted
            && (for_control_planes.is_empty() || for_control_planes.iter().any(|named| is_in(named, zone)))
    };
    let present = observed.zones.iter().map(|zone| FailureDomain {
        name: zone.clone(),
        control_plane: Some(offered(zone)),
        attributes: None,
    });
    let absent = before.into_iter().flatten().filter(|domain| !observed.zones.contains(&domain.name));
    let absent = absent.filter_map(|domain| kept(domain, &observed.named_zones, now));
    let mut domains: Vec<FailureDomain> = present.chain(absent).collect();
    domains.sort_by(|a, b| a.name.cmp(&b.name));
    Some(domains)
}

/// Returns an absent domain with the time since which it is, unless its time is over.
fn kept(domain: FailureDomain, named: &BTreeSet<String>, now: &Time) -> Option<FailureDomain> {
    let noted = domain.attributes.as_ref().and_then(|attributes| attributes.get(ABSENT_SINCE)).cloned();
    let since = noted.unwrap_or_else(|| now.0.clone());
    let age = match (since.parse::<Timestamp>(), now.0.parse::<Timestamp>()) {
        (Ok(since), Ok(now)) => now.duration_since(since),
        _ => SignedDuration::ZERO,
    };
    if age >= ABSENT && !named.contains(&domain.name) {
        return None;
    }
    let attributes: BTreeMap<String, String> = [(ABSENT_SINCE.to_owned(), since)].into();
    // It is full, as far as anyone can tell.
    Some(FailureDomain { control_plane: Some(false), attributes: Some(attributes), ..domain })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(minute: u32) -> Time {
        Time(format!("2026-01-01T00:{minute:02}:00Z"))
    }

    fn observed(zones: &[&str]) -> Observed {
        Observed { zones: zones.iter().map(|zone| (*zone).to_owned()).collect(), ..Observed::default() }
    }

    #[test]
    fn failure_domains_are_offered_for_control_planes_as_the_spec_says() {
        let zones = ["az1".to_owned(), "az2".to_owned()];
        let offered = |omitted, chosen: &[String]| -> Vec<bool> {
            let found = domains(None, &observed(&["az1", "az2"]), omitted, chosen, &at(0)).unwrap();
            found.iter().map(|domain| domain.control_plane.unwrap()).collect()
        };
        assert_eq!(offered(false, &[]), [true, true]);
        assert_eq!(offered(false, &zones[..1]), [true, false]);
        assert_eq!(offered(true, &zones[..1]), [false, false]);
        assert_eq!(offered(false, &["az2:host-7".to_owned()]), [false, true], "R14.3");
    }

    #[test]
    fn r14_1_a_zone_that_nova_does_not_have_is_no_failure_domain() {
        let named = ["az1".to_owned(), "az9".to_owned()];
        let found = domains(None, &observed(&["az1", "az2"]), false, &named, &at(0)).unwrap();
        let found: Vec<(&str, Option<bool>)> =
            found.iter().map(|domain| (domain.name.as_str(), domain.control_plane)).collect();
        assert_eq!(found, [("az1", Some(true)), ("az2", Some(false))]);
    }

    #[test]
    fn r14_2_a_zone_that_vanished_stays_for_ten_minutes_and_while_a_machine_names_it() {
        let names = |found: &Option<Vec<FailureDomain>>| -> Vec<String> {
            found.iter().flatten().map(|domain| domain.name.clone()).collect()
        };
        let both = domains(None, &observed(&["az1", "az2"]), false, &[], &at(0));
        assert_eq!(domains(both.clone(), &observed(&[]), false, &[], &at(1)), both, "the list was not read");
        let mut one = observed(&["az1"]);
        let young = domains(both, &one, false, &[], &at(1));
        assert_eq!(names(&young), ["az1", "az2"]);
        let younger = domains(young.clone(), &one, false, &[], &at(10));
        assert_eq!(names(&younger), ["az1", "az2"], "its time counts from the first absence");
        assert_eq!(names(&domains(younger.clone(), &one, false, &[], &at(11))), ["az1"]);
        one.named_zones.insert("az2".to_owned());
        assert_eq!(names(&domains(younger.clone(), &one, false, &[], &at(59))), ["az1", "az2"]);
        let back = domains(younger, &observed(&["az1", "az2"]), false, &[], &at(12)).unwrap();
        assert!(back.iter().all(|domain| domain.attributes.is_none() && domain.control_plane == Some(true)));
    }

    #[test]
    fn r14_3_a_zone_with_a_host_is_known_if_its_zone_is() {
        let mut object = OpenStackCluster::new("c", apiserver_types::OpenStackClusterSpec::default());
        object.spec.control_plane_availability_zones =
            Some(["az1:host-7", "az9:host-7", "az1"].map(str::to_owned).to_vec());
        let warnings = unknown(&object, &observed(&["az1"]));
        assert_eq!(warnings.len(), 1, "{warnings:?}");
        assert!(warnings[0].1.contains("\"az9:host-7\"; its zones are az1"), "{warnings:?}");
    }
}
