//! A whole Capstan in one process over a simulated OpenStack, whose controllers can be cut at any
//! step, as a process that dies.

mod controllers;
mod cut_cloud;
mod cut_door;
mod fuse;
mod world;

pub use controllers::Controllers;
pub use fuse::{Fuse, Side};
pub use world::World;
