//! Fuzzing of all inputs from clients: one target for each decoder, and one for whole requests.
//!
//! A target receives bytes, and reports errors in the result. An engine creates the bytes: it mutates those
//! of the corpus, and keeps those that reach new code. `cargo test` runs the corpus only. Every target finds
//! panics, and more memory or time than the size of the input justifies. Most targets check more, for example
//! that encoded data decode to the same value.

mod bounds;
mod finding;
mod notation;
mod planted;
mod response;
mod server;
mod target;
mod targets;

pub use finding::Finding;
pub use planted::planted;
pub use target::FuzzTarget;
pub use targets::targets;

use peak_alloc::PeakAlloc;

/// Allocator that counts allocations, which the product's own allocator does not report.
#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

/// Returns the target of this name, among the real and the planted ones.
pub fn find(name: &str) -> Option<&'static FuzzTarget> {
    targets().iter().chain(planted()).find(|target| target.name == name)
}
