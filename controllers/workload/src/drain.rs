//! Stub
use crate::WorkloadError;
/// Stub
#[derive(Debug)]
pub enum DrainProgress {
    /// Stub
    Done,
    /// Stub
    Waiting {
        /// Stub
        message: String,
    },
}
/// Stub
pub fn matching<T>(
    _r: &[T],
    _l: &std::collections::BTreeMap<String, String>,
    _c: &std::collections::BTreeMap<String, String>,
) -> Result<Vec<T>, WorkloadError> {
    Ok(Vec::new())
}
/// Stub
pub async fn drain<T>(_c: &kube::Client, _n: &str, _r: &[T]) -> Result<DrainProgress, WorkloadError> {
    Ok(DrainProgress::Done)
}
/// Stub
pub async fn wait_for_volumes(_c: &kube::Client, _n: &str) -> Result<DrainProgress, WorkloadError> {
    Ok(DrainProgress::Done)
}
