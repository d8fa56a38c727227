//! The kinds in v1beta1, which older clients speak. They are stored in v1beta2; what a structure has
//! in common with that version is taken from there.

mod cluster;
mod cluster_class;
mod machine;
mod machine_deployment;
mod machine_drain_rule;
mod machine_health_check;
mod machine_pool;
mod machine_set;
mod shared;

pub use cluster::*;
pub use cluster_class::*;
pub use machine::*;
pub use machine_deployment::*;
pub use machine_drain_rule::*;
pub use machine_health_check::*;
pub use machine_pool::*;
pub use machine_set::*;
pub use shared::*;
