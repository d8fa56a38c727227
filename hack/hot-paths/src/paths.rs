//! Table of the measured paths.

use crate::runner::PathRunner;

/// Kind of a frequent request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RequestPath {
    Create,
    Get,
    Status,
    Patch,
    Apply,
    /// A change of an object that many clients watch.
    Watch,
    List,
    Metadata,
    Table,
    Delete,
}

/// Measured path: its name, its kind, and the function whose instructions callgrind counts.
type Measured = (&'static str, RequestPath, fn(&mut PathRunner) -> anyhow::Result<()>);

/// Creates one function for each path, and the table of all. No other function may have such a name, because
/// callgrind selects functions by name.
macro_rules! measured {
    ($($name:literal $path:ident $function:ident,)*) => {
        $(
            #[inline(never)]
            fn $function(runner: &mut PathRunner) -> anyhow::Result<()> {
                runner.repeat(RequestPath::$path)
            }
        )*

        /// All paths, in an order in which each one finds the objects that it needs.
        pub(crate) const ALL: &[Measured] = &[$(($name, RequestPath::$path, $function),)*];
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
