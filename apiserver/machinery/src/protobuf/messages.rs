//! Protobuf field tables of the messages that all kinds share: metadata, and the parts of requests and responses.

use super::{Field, Shape};

/// `metadata` of every kind.
pub const METADATA: Field = Field::new(1, "metadata", Shape::Message(OBJECT_META));

const OBJECT_META: &[Field] = &[
    Field::new(1, "name", Shape::Text),
    Field::new(2, "generateName", Shape::Text),
    Field::new(3, "namespace", Shape::Text),
    Field::new(4, "selfLink", Shape::Text),
    Field::new(5, "uid", Shape::Text),
    Field::new(6, "resourceVersion", Shape::Text),
    Field::new(7, "generation", Shape::Integer),
    Field::new(8, "creationTimestamp", Shape::Time),
    Field::pointer(9, "deletionTimestamp", Shape::Time),
    Field::pointer(10, "deletionGracePeriodSeconds", Shape::Integer),
    Field::new(11, "labels", Shape::Texts),
    Field::new(12, "annotations", Shape::Texts),
    Field::list(13, "ownerReferences", Shape::Message(OWNER)),
    Field::list(14, "finalizers", Shape::Text),
    Field::list(17, "managedFields", Shape::Message(MANAGED)),
];

const OWNER: &[Field] = &[
    Field::new(1, "kind", Shape::Text),
    Field::new(3, "name", Shape::Text),
    Field::new(4, "uid", Shape::Text),
    Field::new(5, "apiVersion", Shape::Text),
    Field::pointer(6, "controller", Shape::Boolean),
    Field::pointer(7, "blockOwnerDeletion", Shape::Boolean),
];

const MANAGED: &[Field] = &[
    Field::new(1, "manager", Shape::Text),
    Field::new(2, "operation", Shape::Text),
    Field::new(3, "apiVersion", Shape::Text),
    Field::pointer(4, "time", Shape::Time),
    Field::new(6, "fieldsType", Shape::Text),
    Field::pointer(7, "fieldsV1", Shape::Json),
    Field::new(8, "subresource", Shape::Text),
];

/// `metav1.DeleteOptions`, which metadata clients such as the garbage collector send for any kind.
pub const DELETE_OPTIONS: &[Field] = &[
    Field::pointer(1, "gracePeriodSeconds", Shape::Integer),
    Field::pointer(
        2,
        "preconditions",
        Shape::Message(&[
            Field::pointer(1, "uid", Shape::Text),
            Field::pointer(2, "resourceVersion", Shape::Text),
        ]),
    ),
    Field::pointer(3, "orphanDependents", Shape::Boolean),
    Field::pointer(4, "propagationPolicy", Shape::Text),
    Field::list(5, "dryRun", Shape::Text),
    Field::pointer(6, "ignoreStoreReadErrorWithClusterBreakingPotential", Shape::Boolean),
];

const LIST_META: Shape = Shape::Message(&[
    Field::new(1, "selfLink", Shape::Text),
    Field::new(2, "resourceVersion", Shape::Text),
    Field::new(3, "continue", Shape::Text),
    Field::pointer(4, "remainingItemCount", Shape::Integer),
]);

const CAUSE: &[Field] = &[
    Field::new(1, "reason", Shape::Text),
    Field::new(2, "message", Shape::Text),
    Field::new(3, "field", Shape::Text),
];

/// `metav1.Status`.
pub(super) const STATUS: &[Field] = &[
    Field::new(1, "metadata", LIST_META),
    Field::new(2, "status", Shape::Text),
    Field::new(3, "message", Shape::Text),
    Field::new(4, "reason", Shape::Text),
    Field::pointer(
        5,
        "details",
        Shape::Message(&[
            Field::new(1, "name", Shape::Text),
            Field::new(2, "group", Shape::Text),
            Field::new(3, "kind", Shape::Text),
            Field::list(4, "causes", Shape::Message(CAUSE)),
            Field::new(5, "retryAfterSeconds", Shape::Integer),
            Field::new(6, "uid", Shape::Text),
        ]),
    ),
    Field::new(6, "code", Shape::Integer),
];

/// `metav1.PartialObjectMetadata`.
pub(super) const PARTIAL: &[Field] = &[METADATA];

/// `metav1.PartialObjectMetadataList`.
pub const PARTIAL_LIST: &[Field] =
    &[Field::new(1, "metadata", LIST_META), Field::list(2, "items", Shape::Message(PARTIAL))];

/// The same in `v1beta1`, with the numbers in the other order.
pub const OLDER_PARTIAL_LIST: &[Field] =
    &[Field::list(1, "items", Shape::Message(PARTIAL)), Field::new(2, "metadata", LIST_META)];

const ADDRESS: &[Field] =
    &[Field::new(1, "clientCIDR", Shape::Text), Field::new(2, "serverAddress", Shape::Text)];

const VERSION: &[Field] =
    &[Field::new(1, "groupVersion", Shape::Text), Field::new(2, "version", Shape::Text)];

/// `metav1.APIVersions`.
pub(super) const VERSIONS: &[Field] = &[
    Field::list(1, "versions", Shape::Text),
    Field::list(2, "serverAddressByClientCIDRs", Shape::Message(ADDRESS)),
];

/// `metav1.APIGroup`.
pub(super) const GROUP: &[Field] = &[
    Field::new(1, "name", Shape::Text),
    Field::list(2, "versions", Shape::Message(VERSION)),
    Field::new(3, "preferredVersion", Shape::Message(VERSION)),
    Field::list(4, "serverAddressByClientCIDRs", Shape::Message(ADDRESS)),
];

/// `metav1.APIGroupList`.
pub(super) const GROUPS: &[Field] = &[Field::list(1, "groups", Shape::Message(GROUP))];

/// `metav1.APIResourceList`.
pub(super) const RESOURCES: &[Field] = &[
    Field::new(1, "groupVersion", Shape::Text),
    Field::list(
        2,
        "resources",
        Shape::Message(&[
            Field::new(1, "name", Shape::Text),
            Field::new(2, "namespaced", Shape::Boolean),
            Field::new(3, "kind", Shape::Text),
            Field::pointer(4, "verbs", Shape::Items),
            Field::list(5, "shortNames", Shape::Text),
            Field::new(6, "singularName", Shape::Text),
            Field::list(7, "categories", Shape::Text),
            Field::new(8, "group", Shape::Text),
            Field::new(9, "version", Shape::Text),
            Field::new(10, "storageVersionHash", Shape::Text),
        ]),
    ),
];

const GROUP_VERSION_KIND: Shape = Shape::Message(&[
    Field::new(1, "group", Shape::Text),
    Field::new(2, "version", Shape::Text),
    Field::new(3, "kind", Shape::Text),
]);

const DISCOVERED_SUBRESOURCE: &[Field] = &[
    Field::new(1, "subresource", Shape::Text),
    Field::pointer(2, "responseKind", GROUP_VERSION_KIND),
    Field::list(3, "acceptedTypes", GROUP_VERSION_KIND),
    Field::list(4, "verbs", Shape::Text),
];

const DISCOVERED_RESOURCE: &[Field] = &[
    Field::new(1, "resource", Shape::Text),
    Field::pointer(2, "responseKind", GROUP_VERSION_KIND),
    Field::new(3, "scope", Shape::Text),
    Field::new(4, "singularResource", Shape::Text),
    Field::list(5, "verbs", Shape::Text),
    Field::list(6, "shortNames", Shape::Text),
    Field::list(7, "categories", Shape::Text),
    Field::list(8, "subresources", Shape::Message(DISCOVERED_SUBRESOURCE)),
];

const DISCOVERED_VERSION: &[Field] = &[
    Field::new(1, "version", Shape::Text),
    Field::list(2, "resources", Shape::Message(DISCOVERED_RESOURCE)),
    Field::new(3, "freshness", Shape::Text),
];

/// `apidiscovery.k8s.io/v2 APIGroupDiscoveryList`.
pub(super) const DISCOVERED: &[Field] = &[
    Field::new(1, "metadata", LIST_META),
    Field::list(
        2,
        "items",
        Shape::Message(&[METADATA, Field::list(2, "versions", Shape::Message(DISCOVERED_VERSION))]),
    ),
];
