//! Error of an operation on certificates and keys. No message contains a part of a key.

/// Error of an operation on certificates and keys.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CertificateError {
    /// A text is no certificate in PEM.
    #[error("no certificate in PEM can be read: {0}")]
    Certificate(String),
    /// A text is no private key in PEM.
    #[error(
        "no private key in PEM can be read. Supported forms are PKCS#1, SEC1 and PKCS#8, without a password"
    )]
    Key,
    /// Certificate and private key do not belong together.
    #[error("the private key belongs to none of the certificates")]
    Mismatch,
    /// A key or certificate was not generated.
    #[error("generation failed: {0}")]
    Generation(String),
}

impl From<rcgen::Error> for CertificateError {
    fn from(error: rcgen::Error) -> Self {
        Self::Generation(error.to_string())
    }
}
