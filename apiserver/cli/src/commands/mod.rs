//! Commands, one per module.

pub(crate) mod describe;
pub(crate) mod download;
mod duration;
pub(crate) mod explain;
pub(crate) mod explain_access;
pub(crate) mod host_status;
pub(crate) mod kubeconfig;
pub(crate) mod login;
pub(crate) mod plan;
pub(crate) mod upgrade;
pub(crate) mod why;

/// Blocks on a command. Requests are few, so one thread is enough.
pub(crate) fn block_on<T>(
    command: impl Future<Output = Result<T, crate::Failure>>,
) -> Result<T, crate::Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| {
        crate::Failure::new(crate::ExitCode::Failed, format!("cannot start the async runtime: {error}"))
    })?;
    runtime.block_on(command)
}
