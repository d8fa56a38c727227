//! Ages up to which results of reads serve looks at rest.
//!
//! A look at rest finds what others have changed in the cloud. Each list of a project is one call, so the ages decide how
//! many calls a project needs in an hour. In a project with many Machines the ages are those of ten minutes. A project
//! with few Machines has longer ones, so that the calls per Machine stay few.

use std::time::Duration;

/// Shortest age: a little less than the interval of a cluster at rest, so that each of its looks reads once.
const SHORTEST: Duration = Duration::from_secs(590);

/// Longest age: a little less than an hour.
const LONGEST: Duration = Duration::from_secs(3590);

/// Longest age of settings: a little less than half an hour.
const LONGEST_OF_SETTINGS: Duration = Duration::from_secs(1790);

/// Shortest age of the list of servers: a little less than the interval of a Machine at rest.
const SHORTEST_OF_SERVERS: Duration = Duration::from_secs(290);

/// Age of a part of a network in a project with one Machine. With 13 Machines it is 56 minutes.
const PARTS: Duration = Duration::from_secs(44_000);

/// Age of the list of servers in a project with one Machine. With 26 Machines it is five minutes.
const SERVERS: Duration = Duration::from_secs(7_540);

/// Urgency of a kind of resources.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Urgency {
    /// Access to the API server, and the state of load balancers: the shortest age in each project.
    Access,
    /// Settings of subnets and members of load balancers. They may be wrong while the API answers and the Nodes are
    /// healthy. At most half an hour.
    Settings,
    /// Parts of a cluster without which its Nodes or its API do not work. Then the cluster is not at rest, so that its
    /// next look reads them directly.
    Parts,
    /// Zones, flavors, images and limits of a project.
    Catalog,
}

/// Returns the age of a kind of resources in a project with this number of Machines.
pub(super) fn of(urgency: Urgency, machines: u32) -> Duration {
    let parts = PARTS / machines.max(1);
    match urgency {
        Urgency::Access => SHORTEST,
        Urgency::Settings => parts.clamp(SHORTEST, LONGEST_OF_SETTINGS),
        Urgency::Parts => parts.clamp(SHORTEST, LONGEST),
        Urgency::Catalog => (parts * 2).clamp(SHORTEST, LONGEST),
    }
}

/// Returns the age of the list of servers in a project with this number of Machines. A Node shows that its server is lost
/// sooner than Nova does.
pub(crate) fn of_servers(machines: u32) -> Duration {
    (SERVERS / machines.max(1)).clamp(SHORTEST_OF_SERVERS, SHORTEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lists of a cluster without a load balancer: security groups; subnets; network, external network, router, its ports
    /// and the floating IP; zones, flavors and one image.
    const LISTS: [(Urgency, f64); 4] =
        [(Urgency::Access, 1.0), (Urgency::Settings, 1.0), (Urgency::Parts, 5.0), (Urgency::Catalog, 3.0)];

    #[test]
    fn the_lists_of_a_project_are_fewer_than_two_calls_per_machine_and_hour() {
        let hour = 3600.0;
        for machines in [13_u32, 20, 26, 61, 500, 6500] {
            let lists: f64 = LISTS
                .iter()
                .map(|(urgency, count)| count * hour / of(*urgency, machines).as_secs_f64())
                .sum();
            let calls = lists + hour / of_servers(machines).as_secs_f64();
            // Three calls belong to the token, which is renewed once in an hour.
            let each = (calls + 3.0) / f64::from(machines);
            assert!(each < 2.0, "{machines} Machines: {each:.2}");
        }
    }

    #[test]
    fn ages_stay_between_ten_minutes_and_an_hour() {
        for machines in [0, 1, 13, 70, 100_000] {
            for urgency in [Urgency::Access, Urgency::Settings, Urgency::Parts, Urgency::Catalog] {
                assert!((SHORTEST..=LONGEST).contains(&of(urgency, machines)));
            }
            assert!((SHORTEST_OF_SERVERS..=SHORTEST).contains(&of_servers(machines)));
        }
        assert_eq!(of(Urgency::Parts, 13).as_secs() / 60, 56);
        assert_eq!(of(Urgency::Settings, 1), LONGEST_OF_SETTINGS);
        assert_eq!(of(Urgency::Settings, 6500), SHORTEST);
        assert_eq!(of(Urgency::Catalog, 6500), SHORTEST);
    }
}
