//! Strict decoding of the file, with the types that it has for kube-apiserver.

use std::borrow::Cow;
use std::fmt::Display;

use apiserver_schema::merge_patch::without_nulls;
use serde::Deserialize;
use serde_json::Value;

use super::{File, InvalidConfiguration};

/// Decodes a file. Null means that the field is absent. Numbers and booleans are no text, and text is no boolean.
///
/// # Errors
/// [`InvalidConfiguration`] with the first error.
pub(super) fn decode(text: &str) -> Result<File, InvalidConfiguration> {
    let tree: Value = serde_saphyr::from_str(text).map_err(|error| invalid(&error))?;
    let plain = without_nulls(&tree);
    // Errors show lines of the text. The decoder refuses texts that are null, so they are removed first.
    let source = if plain == tree { Cow::Borrowed(text) } else { Cow::Owned(plain.to_string()) };
    let options = serde_saphyr::options! { no_schema: true };
    let file: File =
        serde_saphyr::from_str_with_options(&source, options).map_err(|error| invalid(&error))?;
    // The decoder of YAML reads a quoted `true` as a boolean. This one does not.
    File::deserialize(&plain).map(|_| file).map_err(|error| invalid(&error))
}

fn invalid(error: &dyn Display) -> InvalidConfiguration {
    InvalidConfiguration(format!("strict decoding error: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\n";

    fn error(fields: &str) -> Option<String> {
        decode(&format!("{HEAD}{fields}")).err().map(|error| error.to_string())
    }

    #[test]
    fn a_field_that_is_null_is_absent() {
        for fields in [
            "jwt: null\nanonymous:\n",
            "jwt:\n- issuer: {url: 'https://i', certificateAuthority: ~, audiences: [a]}\n  userValidationRules:\n",
        ] {
            assert_eq!(error(fields), None, "{fields}");
        }
        let file =
            decode(&format!("{HEAD}jwt:\n- claimMappings: {{username: {{claim: a, prefix: null}}}}\n"));
        assert_eq!(file.unwrap().jwt[0].claim_mappings.username.prefix, None);
    }

    #[test]
    fn a_value_has_the_type_of_its_field() {
        for fields in [
            "jwt: [{issuer: {url: 7}}]",
            "jwt: [{claimValidationRules: [{claim: a, requiredValue: true}]}]",
            "jwt: [{userValidationRules: [{message: no}]}]",
            "jwt: [{claimMappings: {groups: []}}]",
            "jwt: {}",
            "anonymous: {enabled: 'true'}",
        ] {
            let found = error(fields).unwrap();
            assert!(found.starts_with("strict decoding error: "), "{fields}: {found}");
        }
        for fields in ["anonymous: {enabled: yes}", "jwt: [{issuer: {url: '7'}}]"] {
            assert_eq!(error(fields), None, "{fields}");
        }
        let unknown = error("jwt:\n- issuer: {uri: a, certificateAuthority: null}\n").unwrap();
        assert!(unknown.contains("uri"), "{unknown}");
    }
}
