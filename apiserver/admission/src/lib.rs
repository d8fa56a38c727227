//! Admission by configurations: webhooks, and policies in CEL.
//!
//! [`Admission`] holds all configurations in an immutable snapshot. A request opens an admission on the snapshot of that
//! moment, and the store consults it for each write: first it may change the object, then it may refuse it.

mod control;
mod expressions;
mod files;
mod host;
mod matching;
mod one_request;
mod policies;
mod review;
mod rounds;
mod snapshot;
mod value;
mod webhooks;

pub use control::Admission;
pub use files::{STATIC_SUFFIX, read_directory};
pub use host::{HostCluster, HostConfigurations, HostContact, HostParameters, HostService};
pub use policies::{ExpressionWarning, type_warnings};
pub use snapshot::{Configurations, HostPart, Joined};
pub use webhooks::Clients;

/// API group of all configurations. Its objects are never sent to webhooks and never checked by policies: a mistake in
/// one configuration could otherwise not be repaired.
pub const GROUP: &str = "admissionregistration.k8s.io";

/// Kinds of configurations, with their plurals, in `v1`.
pub const KINDS: [(&str, &str); 6] = [
    ("MutatingWebhookConfiguration", "mutatingwebhookconfigurations"),
    ("ValidatingWebhookConfiguration", "validatingwebhookconfigurations"),
    ("ValidatingAdmissionPolicy", "validatingadmissionpolicies"),
    ("ValidatingAdmissionPolicyBinding", "validatingadmissionpolicybindings"),
    ("MutatingAdmissionPolicy", "mutatingadmissionpolicies"),
    ("MutatingAdmissionPolicyBinding", "mutatingadmissionpolicybindings"),
];
