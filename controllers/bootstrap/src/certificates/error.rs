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
    /// The validity of a certificate is over, or has not begun.
    #[error("the certificate is valid from {from} to {until} only. Replace it by one that is valid now")]
    NotValid {
        /// Start of the validity.
        from: String,
        /// End of the validity.
        until: String,
    },
    /// A certificate is to sign others, and must not.
    #[error("the certificate is no certificate authority (basicConstraints). kubeadm refuses it")]
    NoAuthority,
    /// A key or certificate was not generated.
    #[error("generation failed: {0}")]
    Generation(String),
}

impl From<rcgen::Error> for CertificateError {
    fn from(error: rcgen::Error) -> Self {
        Self::Generation(error.to_string())
    }
}
