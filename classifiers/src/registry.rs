//! Types by name, for classifiers that are put together step by step.

use psp_server::{RequestType, TypeSpec, TypeTable};

/// Adds `spec` to `types`, or gives its hints to the type of that name, which keeps its number.
pub(crate) fn register(types: &mut TypeTable, spec: TypeSpec) -> RequestType {
    let Some(known) = types.by_name(&spec.name) else {
        return types.register(spec);
    };
    let mut specs = types.specs().to_vec();
    specs[types.slot(known)] = spec;
    *types = specs.into_iter().collect();
    known
}
