//! The paths that are measured.

use crate::world::World;

/// Something that servers are asked for often.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Path {
    Create,
    Get,
    Status,
    Patch,
    Apply,
    /// A change that many watch.
    Watch,
    List,
    Metadata,
    Table,
    Delete,
}

/// A path: what it is called, what it is, and the function that callgrind counts.
type Measured = (&'static str, Path, fn(&mut World) -> anyhow::Result<()>);

/// Writes the function for each path, and the table of all. Nothing else may have such a name: callgrind goes by it.
macro_rules! measured {
    ($($name:literal $path:ident $function:ident,)*) => {
        $(
            #[inline(never)]
            fn $function(world: &mut World) -> anyhow::Result<()> {
                world.walk(Path::$path)
            }
        )*

        /// All paths, in an order in which each finds what it needs.
        pub(crate) const ALL: &[Measured] = &[$(($name, Path::$path, $function),)*];
    };
}

measured! {
    "create" Create measured_create,
    "get" Get measured_get,
    "status" Status measured_status,
    "patch" Patch measured_patch,
    "apply" Apply measured_apply,
    "watch" Watch measured_watch,
    "list" List measured_list,
    "metadata" Metadata measured_metadata,
    "table" Table measured_table,
    "delete" Delete measured_delete,
}
