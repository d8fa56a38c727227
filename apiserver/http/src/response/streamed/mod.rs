//! Streamed bodies: lists, tables and metadata that are encoded while they are sent.

pub(crate) mod chunk_source;
pub(crate) mod indented;
pub(crate) mod item_chunks;
pub(crate) mod list;
pub(crate) mod metadata;
pub(crate) mod table;
