//! Extension servers: the protocol of Cluster API's Runtime SDK, and its client.
//!
//! An ExtensionConfig names a server. Its controller calls [`discover`] for the list of the server's handlers, and keeps the
//! list in the status. Other controllers read the list ([`Extensions::read`]) and call the handlers of a hook.
//!
//! A reconciler keeps one [`ExtensionServers`], which has the connections, and one [`AnswerCache`] for each use. Each pass
//! reads the handlers anew. Without an ExtensionConfig, this is one small list, and nothing else happens.
//!
//! # Hooks of the life of a Cluster
//!
//! ```ignore
//! let extensions = Extensions::read(&context, &self.servers).await?;
//! if extensions.handlers(Hook::BeforeClusterCreate, &namespace).await?.is_empty() { /* nothing holds the Cluster up */ }
//! // The server has said when to call it again.
//! let key = wait_key(&cluster, Hook::BeforeClusterCreate);
//! if let Some((message, rest)) = self.waits.get(&key) { /* held up, look again after `rest` */ }
//! let request = BeforeClusterCreateRequest { cluster: without_state(&cluster) };
//! let response: RetryResponse = extensions.call_all(&namespace, &request).await?;
//! if let Some(interval) = response.retry_after() {
//!     self.waits.keep(key, response.message, interval);
//! }
//! ```
//!
//! `waits` is an `AnswerCache<String>`. [`PlainResponse`] is the answer to the hooks that hold nothing up.
//!
//! # External patches, variables and plans of upgrades
//!
//! ```ignore
//! let call = Call { handler: "generate-patches.my-extension", namespace: &namespace, settings: &patch_settings };
//! let request = GeneratePatchesRequest { variables, items };
//! let response: GeneratePatchesResponse = extensions.call(&call, &request).await?;
//! for item in &response.items {
//!     match item.document()? { PatchDocument::Json(operations) => {} PatchDocument::Merge(fields) => {} }
//! }
//! // Answers that stay the same for a while: the key names what they depend on, besides handler, settings and server.
//! let caching = Caching { cache: &self.plans, key: "namespace/cluster/v1.33.0/v1.36.0", time: Duration::from_mins(10) };
//! let plan: GenerateUpgradePlanResponse = extensions.call_cached(&caching, &call, &request).await?;
//! ```
//!
//! # Updates in place
//!
//! ```ignore
//! let handlers = extensions.handlers(Hook::CanUpdateMachineSet, &namespace).await?;
//! let current = MachineSetObjects { machine_set: desired_part(&old), .. };
//! let request = CanUpdateMachineSetRequest { current, desired };
//! let call = Call { handler: handlers[0].name(), namespace: &namespace, settings: &NO_SETTINGS };
//! let answer: CanUpdateMachineSetResponse = extensions.call_cached(&caching, &call, &request).await?;
//! let response: RetryResponse = extensions.call(&call, &UpdateMachineRequest { desired }).await?;
//! ```
//!
//! # Errors
//!
//! An [`ExtensionError`] names the handler, its ExtensionConfig, the hook and the server's own words. With
//! `failurePolicy: Ignore`, a server that does not answer counts as one that agrees; a refusal is an error in any case.
//! [`ExtensionError::waiting`] turns it into the error of a pass.
//!
//! # Permissions
//!
//! The rules of a controller that reads handlers need [`READ_HANDLERS`] and [`READ_NAMESPACES`].

mod answer_cache;
mod call;
mod discovery;
mod error;
mod extensions;
mod handler;
mod hook;
mod hooks;
mod objects;
mod servers;
mod target;

pub use answer_cache::AnswerCache;
pub use discovery::{DiscoveredHandler, DiscoveryRequest, DiscoveryResponse, discover};
pub use error::{Cause, ExtensionError};
pub use extensions::{Caching, Call, Extensions, NO_SETTINGS, READ_HANDLERS, READ_NAMESPACES};
pub use handler::Handler;
pub use hook::{API_VERSION, Hook};
pub use hooks::*;
pub use objects::{desired_part, wait_key, without_state};
pub use servers::{ExtensionServers, certificates};
