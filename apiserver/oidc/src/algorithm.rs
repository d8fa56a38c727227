//! Signature algorithms of tokens.

/// Signature algorithm. Those with a shared secret do not exist here: an issuer would have to give its secret away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are those of RFC 7518")]
pub enum Algorithm {
    Rs256,
    Rs384,
    Rs512,
    Es256,
    Es384,
    Es512,
    Ps256,
    Ps384,
    Ps512,
    EdDsa,
}

/// Algorithms with their names in a token.
const NAMES: [(Algorithm, &str); 10] = [
    (Algorithm::Rs256, "RS256"),
    (Algorithm::Rs384, "RS384"),
    (Algorithm::Rs512, "RS512"),
    (Algorithm::Es256, "ES256"),
    (Algorithm::Es384, "ES384"),
    (Algorithm::Es512, "ES512"),
    (Algorithm::Ps256, "PS256"),
    (Algorithm::Ps384, "PS384"),
    (Algorithm::Ps512, "PS512"),
    (Algorithm::EdDsa, "EdDSA"),
];

impl Algorithm {
    /// Algorithms that are accepted by default: those of kube-apiserver.
    pub const DEFAULT: [Self; 9] = [
        Self::Rs256,
        Self::Rs384,
        Self::Rs512,
        Self::Es256,
        Self::Es384,
        Self::Es512,
        Self::Ps256,
        Self::Ps384,
        Self::Ps512,
    ];

    /// Returns the algorithm of a name, or `None` if there is none. `none` and `HS256` have none.
    pub fn named(name: &str) -> Option<Self> {
        NAMES.into_iter().find(|(_, known)| *known == name).map(|(algorithm, _)| algorithm)
    }

    /// Returns all names.
    pub fn names() -> impl Iterator<Item = &'static str> {
        NAMES.into_iter().map(|(_, name)| name)
    }

    /// Returns the name in a token.
    pub fn name(self) -> &'static str {
        NAMES.into_iter().find(|(known, _)| *known == self).map_or("", |(_, name)| name)
    }
}
