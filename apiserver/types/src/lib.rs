//! What a Cluster and a Machine are: the wire types, one file per kind.
//!
//! Shapes, defaults and constraints are Cluster API's and its OpenStack provider's own; see
//! `docs/decisions/0006-types-from-structs.md`. No async, no I/O: clients link this crate.

mod cluster;
mod conditions;
mod core_kinds;
mod deprecated;
mod descriptor;
mod label_selector;
mod machine;
mod machine_operation;
mod network;
mod object;
mod open_stack_cluster;
mod open_stack_machine;
mod schema;
mod shared;
pub mod v1beta1;
pub mod version;

pub use cluster::*;
pub use conditions::{condition, remove_condition, set_condition};
pub use deprecated::*;
pub use descriptor::{Column, Described, Descriptor, Scale, descriptors};
pub use label_selector::*;
pub use machine::*;
pub use machine_operation::*;
pub use network::*;
pub use open_stack_cluster::*;
pub use open_stack_machine::*;
pub use schema::structural;
pub use shared::*;
