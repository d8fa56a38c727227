//! Server-side apply, without a server: ownership of an object's fields by field managers, and the merge of an
//! applied configuration with the fields of the others.
//!
//! An object is a tree of JSON. Its [schema](Type) tells which of its parts are owned as a whole and which field by
//! field, key by key, item by item. A [`Set`] is a set of such parts. Every field manager of an object has one, and
//! the object carries them in `metadata.managedFields` as [`Entries`]. A [`FieldManager`] applies a write to them.

mod ancient;
mod check;
mod compare;
mod complete;
mod conflict;
mod element;
mod entries;
mod field_manager;
mod fields_v1;
pub mod go_values;
mod json_order;
mod last_applied;
mod list_order;
mod managed_fields;
mod manager_identifier;
mod merge;
mod nodes;
mod overlay;
mod owned;
mod prune;
mod reconcile;
mod remove;
mod scale_managers;
mod schema;
mod serialized;
mod set;
mod set_cache;
mod time;
mod updater;
mod versions;

pub use check::Mismatch;
pub use compare::{Comparison, compare};
pub use conflict::{Conflict, Conflicts};
pub use element::{Element, InvalidElement, Path};
pub use entries::{Entries, Entry, InvalidEntries};
pub use field_manager::{Applied, ApplyError, FieldManager};
pub use fields_v1::{InvalidFields, read, text, write};
pub use json_order::Item;
pub use managed_fields::{is_same, same_managers};
pub use manager_identifier::{ManagerIdentifier, Operation};
pub use merge::merge;
pub use overlay::overlay;
pub use owned::owned;
pub use scale_managers::{ScalePaths, from_scale, to_scale};
pub use schema::{InvalidSchema, Type};
pub use serialized::{FIELD as SET_FIELD, parse_sets, serialize_sets};
pub use set::Set;
pub use versions::{VersionError, Versions};

#[cfg(test)]
mod tests;
