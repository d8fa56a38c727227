//! Metric of the bootstrap Secrets that machines request.

use apiserver_access::Decision;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

use super::graph::CLOSED;

/// Requests of machines for their bootstrap Secrets. Clones share the counts.
#[derive(Debug, Clone, Default)]
pub(crate) struct BootstrapReads(Family<Labels, Counter>);

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Labels {
    /// `allowed`, or `closed` after the node of the Machine has registered.
    result: &'static str,
}

impl BootstrapReads {
    /// Creates the metric `capstan_machine_bootstrap_reads_total` in a registry.
    pub(crate) fn registered(registry: &mut Registry) -> Self {
        let reads = Self::default();
        // Both exist from the start, so that an alert sees the first one.
        for result in ["allowed", "closed"] {
            reads.0.get_or_create(&Labels { result }).inc_by(0);
        }
        registry.register(
            "capstan_machine_bootstrap_reads",
            "Requests of machines for their bootstrap Secrets, by result",
            reads.0.clone(),
        );
        reads
    }

    /// Counts the decision about the Secret of a machine. Other Secrets are refused for other reasons, and do not count.
    pub(super) fn count(&self, decision: &Decision) {
        let result = match decision {
            Decision::Allow => "allowed",
            Decision::Deny(why) if why == CLOSED => "closed",
            _ => return,
        };
        self.0.get_or_create(&Labels { result }).inc();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn iz_31_only_the_own_bootstrap_secret_is_counted() {
        let mut registry = Registry::default();
        let reads = BootstrapReads::registered(&mut registry);
        for decision in [
            Decision::Allow,
            Decision::Deny(CLOSED.to_owned()),
            Decision::Deny(CLOSED.to_owned()),
            Decision::Deny("it is no object of this Machine".to_owned()),
            Decision::NoOpinion(String::new()),
            Decision::Error("the store does not answer".to_owned()),
        ] {
            reads.count(&decision);
        }
        let count = |result| reads.0.get_or_create(&Labels { result }).get();
        assert_eq!([count("allowed"), count("closed")], [1, 2]);
    }
}
