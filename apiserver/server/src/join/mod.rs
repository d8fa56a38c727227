//! Join of a node to an installation: its protocol, and the endpoint that serves it.
//!
//! A join token names the key of the CA, so that the new node sends nothing to a server of another CA. The node proves
//! that it holds a key. The token is bound to that key and to the name of the node at its first use. So the same node can
//! repeat a request whose response was lost, and no other one can use the token.

mod pin;
mod proof;
mod request;
mod service;
#[cfg(test)]
mod tests;
mod throttle;
mod token;
mod tokens;

use serde::{Deserialize, Serialize};

pub(crate) use pin::{client, hashes_of_cas};
pub(crate) use proof::NodeKey;
pub(crate) use request::join;
pub(crate) use service::open;
pub(crate) use token::Token;
pub(crate) use tokens::{JoinTokens, LIFETIME};

/// Path of the endpoint.
pub(crate) const PATH: &str = "/capstan/v1/join";

/// Request of a node.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct JoinRequest {
    /// The public part of the token.
    pub(crate) id: String,
    /// The secret part of the token.
    pub(crate) secret: Secret,
    /// Name of the node.
    pub(crate) node: String,
    /// Address at which the other nodes reach it.
    pub(crate) address: std::net::IpAddr,
    /// Public key of the node, in base64.
    pub(crate) key: String,
    /// Signature of the node's key over the rest of the request, in base64.
    pub(crate) signature: String,
}

/// Files and settings of an installation, for a node that has joined it.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Bundle {
    /// Record of the installation on the node that has served the request.
    pub(crate) installation: crate::install::Installation,
    /// Files of the data directory that all nodes share, by their paths in it.
    pub(crate) files: std::collections::BTreeMap<String, Secret>,
    /// Members of etcd, if it runs on the nodes.
    pub(crate) members: Vec<MemberOfEtcd>,
}

/// Member of the etcd of an installation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct MemberOfEtcd {
    /// Empty until it has started for the first time.
    pub(crate) name: String,
    pub(crate) peer_url: String,
    /// Empty until it has started for the first time.
    pub(crate) client_url: String,
}

/// Text that is never printed.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Secret(pub(crate) String);

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("(secret)")
    }
}
