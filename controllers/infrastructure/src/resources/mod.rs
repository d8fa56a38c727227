//! OpenStack resources, with the fields that the reconcilers use and no others.
//!
//! Ids are the cloud's own (UUIDs, mostly). Times are in RFC 3339 as the cloud returned them, normalised to
//! end in `Z`. An empty query matches everything that the project sees.

mod compute;
mod identity;
mod image;
mod load_balancer;
mod network;
mod port;
mod quota;
mod share;
mod volume;

pub use compute::*;
pub use identity::*;
pub use image::*;
pub use load_balancer::*;
pub use network::*;
pub use port::*;
pub use quota::*;
pub use share::*;
pub use volume::*;

/// Defines structs of public fields with the usual traits.
macro_rules! plain {
    ($($(#[$doc:meta])* $name:ident { $($(#[$field_doc:meta])* $field:ident: $type:ty,)* })*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, Default)]
        pub struct $name { $($(#[$field_doc])* pub $field: $type,)* }
    )*};
}
use plain;
