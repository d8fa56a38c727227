//! Commands that are clients of the API, the tree of a cluster's objects, and the DER of certificates' subjects.
//!
//! The commands work with the kubeconfig of Capstan's direct endpoint and with that of a host cluster.

mod commands;
mod connect;
pub mod der;
mod error;
#[cfg(test)]
mod fake_api;
mod objects;
mod output;
mod tree;

pub use commands::describe::{DescribeClusterArguments, DescribeCommand, Form, describe};
pub use commands::download::download;
pub use commands::explain::{ExplainArguments, advice, explain};
pub use commands::explain_access::{ExplainAccessArguments, explain_access};
pub use commands::host_status::{HostStatusArguments, host_status};
pub use commands::kubeconfig::workload_kubeconfig;
pub use commands::login::{CertArguments, KeystoneArguments, LoginCommand, OidcArguments, login};
pub use commands::plan::{PlanArguments, PlanCommand, plan};
pub use commands::upgrade::{UpgradeClusterArguments, upgrade_cluster};
pub use commands::why::{WhyArguments, why};
pub use connect::ConnectionArguments;
pub use error::{ExitCode, Failure};
pub use objects::ClusterObjects;
pub use output::{
    ColorChoice, ConditionFilter, LiveTree, Style, ViewForm, age, changes, columns, names, render, view,
};
pub use tree::{Cause, Counts, Node, Problem, Severity, Tree};
