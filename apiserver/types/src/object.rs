//! Root object of every kind, and the macros that define kinds and wire structs.

/// Defines the root object of a kind, with its `kube` resource and its descriptor.
///
/// By default, the kind is namespaced, and its status has conditions in the form of `metav1.Condition`. Words
/// before the name select another form:
///
/// - `bare`: a status without conditions in this form.
/// - `without status`: no status.
/// - `across namespaces`: cluster-scoped objects.
macro_rules! kind {
    ($(#[$doc:meta])* bare $name:ident, $spec:ty, $status:ty, $schema:path, $descriptor:expr) => {
        $crate::object::root! { $(#[$doc])* $name, $spec, [$status], kube_core::NamespaceResourceScope, $schema, $descriptor }
    };
    ($(#[$doc:meta])* without status $name:ident, $spec:ty, $schema:path, $descriptor:expr) => {
        $crate::object::root! { $(#[$doc])* $name, $spec, [], kube_core::NamespaceResourceScope, $schema, $descriptor }
    };
    ($(#[$doc:meta])* across namespaces without status $name:ident, $spec:ty, $schema:path, $descriptor:expr) => {
        $crate::object::root! { $(#[$doc])* $name, $spec, [], kube_core::ClusterResourceScope, $schema, $descriptor }
    };
    ($(#[$doc:meta])* across namespaces bare $name:ident, $spec:ty, $status:ty, $schema:path, $descriptor:expr) => {
        $crate::object::root! { $(#[$doc])* $name, $spec, [$status], kube_core::ClusterResourceScope, $schema, $descriptor }
    };
    ($(#[$doc:meta])* across namespaces $name:ident, $spec:ty, $status:ty, $schema:path, $descriptor:expr) => {
        $crate::object::root! { $(#[$doc])* $name, $spec, [$status], kube_core::ClusterResourceScope, $schema, $descriptor }
        $crate::object::conditions! { $name }
    };
    ($(#[$doc:meta])* $name:ident, $spec:ty, $status:ty, $schema:path, $descriptor:expr) => {
        $crate::object::root! { $(#[$doc])* $name, $spec, [$status], kube_core::NamespaceResourceScope, $schema, $descriptor }
        $crate::object::conditions! { $name }
    };
}

/// Defines the accessor for conditions in the form of `metav1.Condition`.
macro_rules! conditions {
    ($name:ident) => {
        impl $name {
            /// Returns the condition of this type, or `None` if it was not reported.
            pub fn condition(&self, kind: &str) -> Option<&$crate::Condition> {
                $crate::condition(self.status.as_ref()?.conditions.as_deref()?, kind)
            }
        }
    };
}

/// Defines a root object with the parts that `kind!` selects.
macro_rules! root {
    (
        $(#[$doc:meta])*
        $name:ident, $spec:ty, [$($status:ty)?], $scope:ty, $schema:path, $descriptor:expr
    ) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
        #[serde(rename_all = "camelCase", default, remote = "Self")]
        pub struct $name {
            /// API group and version. Default: those of this type. The default also applies to an object that
            /// was received without them, so that it can be sent back.
            pub api_version: String,
            /// Kind of the object. Default: the kind of this type.
            pub kind: String,
            /// Metadata of the object: name, namespace, labels, annotations, owner references and finalizers.
            pub metadata: k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta,
            /// Desired state.
            pub spec: $spec,
            $(
                /// Observed state. Unset until a controller writes it.
                #[serde(skip_serializing_if = "Option::is_none")]
                pub status: Option<$status>,
            )?
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                // The derived function, which is an inherent function of the type.
                Self::serialize(self, to)
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                // Compiled only for JSON trees, and not again for each format in which objects are received.
                let tree = <serde_json::Value as serde::Deserialize>::deserialize(from)?;
                Self::deserialize(tree).map_err(serde::de::Error::custom)
            }
        }

        impl Default for $name {
            fn default() -> Self {
                Self::new("", <$spec>::default())
            }
        }

        impl $name {
            /// Creates an object with this spec. An empty `name` leaves the name unset.
            pub fn new(name: &str, spec: $spec) -> Self {
                let metadata = k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta {
                    name: (!name.is_empty()).then(|| name.to_owned()),
                    ..Default::default()
                };
                let descriptor = <Self as $crate::Described>::DESCRIPTOR;
                let api_version = format!("{}/{}", descriptor.group, descriptor.version);
                let kind = descriptor.kind.to_owned();
                Self { api_version, kind, metadata, spec, $(status: None::<$status>)? }
            }
        }

        impl $crate::Described for $name {
            const DESCRIPTOR: $crate::Descriptor = $descriptor;

            fn schema() -> serde_json::Value {
                $schema()
            }
        }

        impl kube_core::Resource for $name {
            type DynamicType = ();
            type Scope = $scope;

            fn kind(_: &()) -> std::borrow::Cow<'_, str> {
                <Self as $crate::Described>::DESCRIPTOR.kind.into()
            }

            fn group(_: &()) -> std::borrow::Cow<'_, str> {
                <Self as $crate::Described>::DESCRIPTOR.group.into()
            }

            fn version(_: &()) -> std::borrow::Cow<'_, str> {
                <Self as $crate::Described>::DESCRIPTOR.version.into()
            }

            fn plural(_: &()) -> std::borrow::Cow<'_, str> {
                <Self as $crate::Described>::DESCRIPTOR.plural.into()
            }

            fn meta(&self) -> &k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta {
                &self.metadata
            }

            fn meta_mut(&mut self) -> &mut k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta {
                &mut self.metadata
            }
        }
    };
}

/// Defines wire structs: field names in camel case, with required and optional fields. Unset optional fields are
/// absent on the wire.
macro_rules! wire {
    ($(
        $(#[$doc:meta])*
        $name:ident {
            $(required { $($(#[$required_doc:meta])* $required:ident: $required_type:ty,)* })?
            $(optional { $($(#[$optional_doc:meta])* $optional:ident: $optional_type:ty,)* })?
        }
    )*) => {$(
        #[derive(Debug, Clone, PartialEq, Default, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
        #[serde(rename_all = "camelCase")]
        $(#[$doc])*
        pub struct $name {
            $($($(#[$required_doc])* pub $required: $required_type,)*)?
            $($(
                $(#[$optional_doc])*
                #[serde(skip_serializing_if = "Option::is_none")]
                pub $optional: Option<$optional_type>,
            )*)?
        }
    )*};
}

pub(crate) use {conditions, kind, root, wire};
