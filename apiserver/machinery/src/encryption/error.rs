//! Errors of sealing and opening values.

/// Error of opening a stored value or of sealing one. It never shows the value.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum EncryptionError {
    /// The key has a length that its cipher does not support.
    #[error("encryption key {name:?} must have {expected} bytes")]
    KeyLength {
        /// Name of the key.
        name: String,
        /// The supported lengths.
        expected: &'static str,
    },
    /// The value was sealed with a key that is not configured.
    #[error("{0}: sealed with a key that is not in the encryption configuration")]
    UnknownKey(String),
    /// The value is not sealed, and the rule of its resource has no provider `identity`.
    #[error("{0}: is stored unencrypted, and the encryption configuration lists no provider identity for it")]
    Plain(String),
    /// The value is damaged, or was sealed for another key.
    #[error("{0}: cannot be opened: the value is damaged or was moved")]
    Damaged(String),
    /// The system returned no randomness, or the cipher failed.
    #[error("{0}: cannot be sealed")]
    Seal(String),
    /// The first provider of the rule only opens values.
    #[error("{key}: provider {provider} only reads: list another provider before it")]
    OnlyReads {
        /// Key of the value.
        key: String,
        /// Kind of the provider.
        provider: &'static str,
    },
    /// The server lacks a key of the store, so it seals nothing: other servers could not open the value.
    #[error(
        "{0}: not sealed: this server lacks an encryption key of the store; copy the encryption configuration from \
         another replica or from the backup"
    )]
    Withheld(String),
    /// The KMS plug-in does not answer, or cannot work now.
    #[error("{key}: the KMS plug-in {plugin:?} cannot be used: {detail}")]
    Kms {
        /// Key of the value.
        key: String,
        /// Name of the provider.
        plugin: String,
        /// The plug-in's own words.
        detail: String,
    },
    /// The KMS plug-in answered that it cannot open the seed of the value.
    #[error("{key}: the KMS plug-in {plugin:?} does not open its seed: {detail}")]
    KmsRefused {
        /// Key of the value.
        key: String,
        /// Name of the provider.
        plugin: String,
        /// The plug-in's own words.
        detail: String,
    },
}

impl EncryptionError {
    /// Returns true if the plug-in did not answer, or the server lacks a key of the store: work on many values waits for it.
    pub const fn is_temporary(&self) -> bool {
        matches!(self, Self::Kms { .. } | Self::Withheld(_))
    }

    /// Returns true if a later attempt to open the value may succeed without a change of the configuration. An answer of
    /// the plug-in may be about its own system, so it is not final.
    pub const fn may_pass(&self) -> bool {
        matches!(self, Self::Kms { .. } | Self::KmsRefused { .. })
    }
}
