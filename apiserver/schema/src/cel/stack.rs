//! Stack space for the recursion over a CEL expression, which is as deep as the expression is long.

/// Stack of the longest chain that [`super::parse`] accepts, without optimisation, several times over. Only the used
/// part of this address space takes memory. Unit: bytes.
const DEEPEST: usize = 64 * 1024 * 1024;

/// Remaining stack below which a separate stack is allocated. On the server's threads this is always so. Unit: bytes.
const LEAST: usize = 16 * 1024 * 1024;

/// Runs a function with enough stack.
pub(super) fn deep<T>(run: impl FnOnce() -> T) -> T {
    stacker::maybe_grow(LEAST, DEEPEST, run)
}
