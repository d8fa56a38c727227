//! The controllers. They are clients of the API like any other, over a transport inside the
//! process, each with an identity of its own.

mod garbage_collector;

pub use garbage_collector::GarbageCollector;
