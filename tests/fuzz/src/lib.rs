//! What clients may send, tried by machine: one target for each thing that is decoded, and one for
//! whole requests.
//!
//! A target is given bytes and says what is wrong with what became of them. An engine makes the
//! bytes, by changing those of the corpus and keeping what reaches new code; `cargo test` tries the
//! corpus alone. Panics, and more memory or time than the input's size warrants, are found for every
//! target; most know more, e.g. that what is printed is read as what it was.

mod answer;
mod bounds;
mod finding;
mod notation;
mod planted;
mod server;
mod target;
mod targets;

pub use finding::Finding;
pub use planted::planted;
pub use target::Target;
pub use targets::targets;

use peak_alloc::PeakAlloc;

/// Counts what is allocated. The product's own allocator would not tell.
#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

/// The target of this name, be its error planted or not.
pub fn find(name: &str) -> Option<&'static Target> {
    targets().iter().chain(planted()).find(|target| target.name == name)
}
