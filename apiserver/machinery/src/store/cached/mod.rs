//! Objects in the watch cache: ready-made bytes and the fields that selectors need.

pub(crate) mod encoded;
pub(crate) mod fast_path;
pub(crate) mod json;
pub(crate) mod object;
pub(crate) mod object_json;
pub(crate) mod own_writes;
pub(crate) mod raw_field;
pub(crate) mod selectable;
pub(crate) mod unreadable;
