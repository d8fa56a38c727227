//! The kinds in v1beta1, which older clients speak. They are stored in v1beta2; what a structure has
//! in common with that version is taken from there.

mod shared;

pub use shared::*;
