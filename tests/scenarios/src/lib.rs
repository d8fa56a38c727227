//! Test library of the scenarios: a whole Capstan in one process over a simulated OpenStack. Its controllers can be cut
//! at any step, as if their process had ended.

mod clock;
mod controllers;
mod cut_cloud;
mod cut_transport;
mod fuse;
mod running;
mod world;

pub use clock::Clock;
pub use controllers::{Controllers, is_over};
pub use fuse::{Fuse, Side};
pub use running::run;
pub use world::World;
