//! Client of a host cluster: the connection ([`HostConnection`]) and its health ([`Prober`]), the objects that the host applies to serve Capstan's
//! groups ([`manifests()`]), its front proxy ([`front_proxy()`]), the users of bearer tokens ([`HostTokens`]), permissions ([`HostAuthorizer`]) and their mirror ([`HostMirror`]), namespaces
//! ([`HostNamespaces`]), Secrets ([`HostSecrets`]), and copies of Capstan's Events ([`HostEvents`]).

#[cfg(test)]
mod answers;
mod audiences;
mod authorizer;
mod ca_bundles;
mod certificates;
mod connection;
mod contact;
mod credential;
mod definitions;
mod events;
#[cfg(test)]
mod fake;
mod front_proxy;
mod health;
mod host_status;
mod jwt;
mod manifests;
mod metrics;
mod mirror;
mod namespace_errors;
mod namespaces;
mod own_objects;
mod pin;
mod policy_parameters;
mod prober;
mod provisional_namespaces;
mod retry;
mod secrets;
mod stale_answers;
mod tokens;
mod ttl_cache;
mod webhook;
mod write_back;
mod write_limit;

pub use audiences::Audiences;
pub use authorizer::HostAuthorizer;
pub use ca_bundles::ApiServices;
pub use certificates::HostUserCertificates;
pub use connection::{ConnectError, HostConnection, connect};
pub use contact::Contact;
pub use credential::CredentialNotices;
pub use definitions::Definitions;
pub use events::{EventRecord, HostEvents};
pub use front_proxy::{FrontProxy, FrontProxyError, front_proxies, front_proxy};
pub use health::{HostHealth, HostState};
pub use host_status::{HostFacts, MirrorFacts, Transitions, host_status};
pub use manifests::{Options, manifests, user_roles};
pub use metrics::HostMetrics;
pub use mirror::{Bounds, Cautious, Class, Disagreement, HostMirror, MirroredAuthorizer};
pub use namespaces::HostNamespaces;
pub use own_objects::{OwnObjects, OwnPass, Wanted};
pub use pin::{HostPin, HostVersion};
pub use policy_parameters::PolicyParameters;
pub use prober::Prober;
pub use provisional_namespaces::ProvisionalNamespaces;
pub use secrets::{HostSecrets, SecretCopies, SecretReferences, SecretUsers};
pub use stale_answers::StaleAnswers;
pub use tokens::{HostKeys, HostTokens, KeptKeys};
pub use webhook::{
    AuthorizationConfiguration, AuthorizerKind, InvalidAuthorization, TokenWebhookError,
    TokenWebhookSettings, WebhookAuthorizer, WebhookSettings, WebhookTokens,
};
pub use write_back::{CopyRecord, CopyRecords, Refusal, SecretWriteBack, WriteBackHost, WriteBackReport};
pub use write_limit::WriteLimit;
