//! Registers types by name, for classifiers that are built step by step.

use psp_server::{RequestType, TypeSpec, TypeTable};

/// Adds `spec` to `types`. A type that is already registered under this name keeps its number and takes
/// the hints of `spec`.
pub(crate) fn register(types: &mut TypeTable, spec: TypeSpec) -> RequestType {
    let Some(known) = types.by_name(&spec.name) else {
        return types.register(spec);
    };
    let mut specs = types.specs().to_vec();
    specs[types.slot(known)] = spec;
    *types = specs.into_iter().collect();
    known
}
