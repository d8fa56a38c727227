//! Cluster that is slow, fails or is huge, beside the clusters that are measured.

use std::net::SocketAddr;

use clap::ValueEnum;

use super::cloud::Request;
use super::manifest::NewCluster;
use super::processes::CloudProcess;
use super::timeline::Timeline;

/// Namespace of the neighbour.
pub(super) const NAMESPACE: &str = "neighbour";

/// Workers of a huge cluster: twice as many as all Machines of 20 clusters with 13.
const HUGE: usize = 500;

/// Kind of neighbour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Neighbour {
    /// Its cloud needs two seconds for each call
    Slow,
    /// Its workload API accepts calls and never answers
    Silent,
    /// Its cloud refuses each server
    Failing,
    /// It has 500 workers
    Huge,
}

impl Neighbour {
    /// Returns its cluster.
    pub(super) fn cluster(self, like: &NewCluster, cloud: &CloudProcess) -> NewCluster {
        let project = match self {
            Self::Slow => "slow",
            Self::Failing => "refused",
            Self::Silent | Self::Huge => "normal",
        };
        NewCluster {
            namespace: NAMESPACE.to_owned(),
            workers: if self == Self::Huge { HUGE } else { like.workers },
            clouds_yaml: cloud.credentials[project].as_str().unwrap_or_default().to_owned(),
            ..like.clone()
        }
    }

    /// Returns the request that makes it misbehave, once its endpoint is known.
    pub(super) fn request(self, timeline: &Timeline) -> Option<Request> {
        let (host, port) = timeline.clusters.get(NAMESPACE)?.endpoint.clone()?;
        let endpoint = SocketAddr::new(host.parse().ok()?, port);
        (self == Self::Silent).then_some(Request::Silence(endpoint))
    }
}
