//! Fuzz target: one decoder of client input.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::bounds;
use crate::finding::{Finding, Verdict};
use crate::notation;
use crate::server::FuzzServer;

/// One decoder of client input, with the check of its results.
#[derive(Debug)]
pub struct FuzzTarget {
    /// Name of the target: of its corpus, and on the command line.
    pub name: &'static str,
    pub(crate) check: InputCheck,
}

/// Function that checks an input.
#[derive(Debug, Clone, Copy)]
pub(crate) enum InputCheck {
    /// Checks a decoder alone.
    Alone(fn(&[u8]) -> Verdict),
    /// Checks the response of a server.
    WithServer(fn(&FuzzServer, &[u8]) -> Verdict),
}

impl FuzzTarget {
    pub(crate) const fn alone(name: &'static str, check: fn(&[u8]) -> Verdict) -> Self {
        Self { name, check: InputCheck::Alone(check) }
    }

    pub(crate) const fn with_server(name: &'static str, check: fn(&FuzzServer, &[u8]) -> Verdict) -> Self {
        Self { name, check: InputCheck::WithServer(check) }
    }

    /// Runs one input.
    ///
    /// # Errors
    /// Returns the finding, if the result is wrong.
    pub fn run(&self, input: &[u8]) -> Result<(), Finding> {
        let input = notation::expand(input);
        match self.check {
            InputCheck::Alone(check) => self.check_bounded(&input, || check(&input)),
            InputCheck::WithServer(check) => {
                let server = FuzzServer::get()?;
                self.check_bounded(&input, || check(server, &input))
            }
        }
    }

    fn check_bounded(&self, input: &[u8], check: impl FnOnce() -> Verdict) -> Verdict {
        let check =
            || catch_unwind(AssertUnwindSafe(check)).unwrap_or_else(|_| Err(Finding("it panicked".into())));
        bounds::check_within_bounds(input.len(), check)
            .map_err(|Finding(why)| Finding(format!("{}: {why}", self.name)))
    }
}
