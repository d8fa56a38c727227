//! Room for expressions that call as deep as they are long.

/// What the longest chain takes that [`super::parse`] lets through, without optimisation, several times over. It is
/// address space: only what is touched is taken. Unit: bytes.
const DEEPEST: usize = 64 * 1024 * 1024;

/// Where less is left, a stack of its own is made: always, on the threads of a server. Unit: bytes.
const LEAST: usize = 16 * 1024 * 1024;

/// Runs what goes deep.
pub(super) fn deep<T>(run: impl FnOnce() -> T) -> T {
    stacker::maybe_grow(LEAST, DEEPEST, run)
}
