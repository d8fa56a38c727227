//! Reviews: questions about identity and permission that are posted, answered at once, and not stored.

/// One kind of review.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Review {
    /// API group.
    pub group: &'static str,
    /// Kind.
    pub kind: &'static str,
    /// Plural name in paths.
    pub plural: &'static str,
    /// Singular name.
    pub singular: &'static str,
    /// True if it is posted in a namespace.
    pub namespaced: bool,
}

/// The version of all reviews.
pub const VERSION: &str = "v1";

/// Group of the reviews of identity.
pub const AUTHENTICATION: &str = "authentication.k8s.io";

/// Group of the reviews of permission.
pub const AUTHORIZATION: &str = "authorization.k8s.io";

/// All reviews.
pub const ALL: [Review; 6] = [
    review(AUTHENTICATION, "SelfSubjectReview", "selfsubjectreviews", "selfsubjectreview", false),
    review(AUTHENTICATION, "TokenReview", "tokenreviews", "tokenreview", false),
    review(
        AUTHORIZATION,
        "LocalSubjectAccessReview",
        "localsubjectaccessreviews",
        "localsubjectaccessreview",
        true,
    ),
    review(
        AUTHORIZATION,
        "SelfSubjectAccessReview",
        "selfsubjectaccessreviews",
        "selfsubjectaccessreview",
        false,
    ),
    review(
        AUTHORIZATION,
        "SelfSubjectRulesReview",
        "selfsubjectrulesreviews",
        "selfsubjectrulesreview",
        false,
    ),
    review(AUTHORIZATION, "SubjectAccessReview", "subjectaccessreviews", "subjectaccessreview", false),
];

const fn review(
    group: &'static str,
    kind: &'static str,
    plural: &'static str,
    singular: &'static str,
    namespaced: bool,
) -> Review {
    Review { group, kind, plural, singular, namespaced }
}

/// Returns the review with this path.
pub fn find(group: &str, version: &str, plural: &str) -> Option<&'static Review> {
    ALL.iter().find(|review| review.group == group && version == VERSION && review.plural == plural)
}
