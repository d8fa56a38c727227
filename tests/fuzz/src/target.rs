//! One thing that reads what a client sends.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::bounds;
use crate::finding::{Finding, Verdict};
use crate::notation;
use crate::server::World;

/// One thing that reads what a client sends.
#[derive(Debug)]
pub struct Target {
    /// Its name: of its corpus, and on the command line.
    pub name: &'static str,
    pub(crate) judge: Judge,
}

/// How an input is judged.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Judge {
    /// By a function alone.
    Alone(fn(&[u8]) -> Verdict),
    /// With a server.
    Served(fn(&World, &[u8]) -> Verdict),
}

impl Target {
    pub(crate) const fn alone(name: &'static str, judge: fn(&[u8]) -> Verdict) -> Self {
        Self { name, judge: Judge::Alone(judge) }
    }

    pub(crate) const fn served(name: &'static str, judge: fn(&World, &[u8]) -> Verdict) -> Self {
        Self { name, judge: Judge::Served(judge) }
    }

    /// Tries one input.
    ///
    /// # Errors
    /// What is wrong with what became of it.
    pub fn run(&self, input: &[u8]) -> Result<(), Finding> {
        let input = notation::expand(input);
        match self.judge {
            Judge::Alone(judge) => self.judged(&input, || judge(&input)),
            Judge::Served(judge) => {
                let world = World::get()?;
                self.judged(&input, || judge(world, &input))
            }
        }
    }

    fn judged(&self, input: &[u8], judge: impl FnOnce() -> Verdict) -> Verdict {
        let judge =
            || catch_unwind(AssertUnwindSafe(judge)).unwrap_or_else(|_| Err(Finding("it panicked".into())));
        bounds::within(input.len(), judge).map_err(|Finding(why)| Finding(format!("{}: {why}", self.name)))
    }
}
