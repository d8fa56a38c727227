//! Rotation of encryption keys over all replicas: `capstan encryption`.
//!
//! Each replica has the keys in a file of its own. The store has the name of the promoted key, with which all of them seal
//! new values, and the record of the keys that seal values ([`crate::encryption_keys`]).

mod checks;
mod command;
mod edit;
mod record;
mod scan;
#[cfg(test)]
mod tests;

pub(crate) use self::command::{add, finish, promote, reencrypt, status};
pub(crate) use self::record::apply;
