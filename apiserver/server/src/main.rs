//! Program `capstan`: the management plane for Kubernetes clusters on OpenStack.

use std::process::ExitCode;

use apiserver_server::Assembly;

/// Allocator for many short-lived allocations of very different sizes from many threads.
#[cfg(feature = "mimalloc")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    match apiserver_server::run(std::env::args_os(), &Assembly::default()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => match error.downcast_ref::<apiserver_cli::Failure>() {
            Some(failure) => {
                eprintln!("{failure}");
                ExitCode::from(failure.code().number())
            }
            None => {
                eprintln!("capstan: {error:#}");
                // EX_CONFIG of sysexits.h: a restart of the same release does not help.
                if error.is::<apiserver_server::UnreadableForm>() {
                    ExitCode::from(78)
                } else {
                    ExitCode::FAILURE
                }
            }
        },
    }
}
