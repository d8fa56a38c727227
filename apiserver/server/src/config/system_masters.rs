//! Setting `systemMasters`: `true`, `ownOnly` or `false`.

use std::fmt;

use apiserver_access::SystemMasters;
use serde::Deserializer;
use serde::de::{Error, Unexpected, Visitor};

/// Reads the setting.
pub(super) fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<SystemMasters, D::Error> {
    deserializer.deserialize_any(Words)
}

struct Words;

impl Visitor<'_> for Words {
    type Value = SystemMasters;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("systemMasters: true, ownOnly or false")
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<SystemMasters, E> {
        Ok(if value { SystemMasters::All } else { SystemMasters::Off })
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<SystemMasters, E> {
        match value {
            "ownOnly" => Ok(SystemMasters::OwnOnly),
            other => Err(E::invalid_value(Unexpected::Str(other), &self)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::ServerConfiguration;

    #[test]
    fn the_setting_is_a_switch_or_a_word() {
        for (text, expected) in [
            ("", Some(SystemMasters::All)),
            ("systemMasters: true", Some(SystemMasters::All)),
            ("systemMasters: ownOnly", Some(SystemMasters::OwnOnly)),
            ("systemMasters: false", Some(SystemMasters::Off)),
            ("systemMasters: hostOnly", None),
            ("systemMasters: 1", None),
        ] {
            let text = format!("apiVersion: capstan.dev/v1alpha1\n{text}\n");
            let read: Result<ServerConfiguration, _> = serde_saphyr::from_str(&text);
            match (read, expected) {
                (Ok(read), Some(expected)) => assert_eq!(read.system_masters, expected, "{text}"),
                (Err(error), None) => {
                    assert!(error.to_string().contains("true, ownOnly or false"), "{error}");
                }
                (other, _) => panic!("{text}: {other:?}"),
            }
        }
    }
}
