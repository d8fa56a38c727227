//! The differential suite: requests whose answers are compared with those of a real kube-apiserver.
//!
//! `cases/` says what is asked, `goldens/` what the real one answered, `differences.yaml` where Capstan
//! answers otherwise, and why. See `docs/conformance.md`.

mod case;
mod client;
mod compare;
mod crds;
mod differences;
mod normal;
mod play;
mod serve;
mod transcript;

pub use case::{Area, Case, Step};
pub use client::{Answer, Client};
pub use compare::{Difference, compare, report};
pub use crds::establish;
pub use differences::{Differences, Entry};
pub use play::Target;
pub use serve::{ServeArguments, capstan, mint, serve};
pub use transcript::{Exchange, Transcript, Transcripts, load, store};
