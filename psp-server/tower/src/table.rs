//! Types by the names of routes or methods.

use std::collections::HashMap;

use psp_pool::{RequestType, TypeSpec};

use crate::parts::Parts;

/// The class of a request among those of its route.
type ClassOf = Box<dyn Fn(&Parts<'_>) -> usize + Send + Sync>;

struct Row {
    first: u32,
    /// At least one.
    classes: u32,
    class_of: Option<ClassOf>,
}

/// See the [module](self).
#[derive(Default)]
pub(crate) struct Table {
    rows: HashMap<String, Row>,
    /// Of the types, in the order of their numbers.
    names: Vec<String>,
}

impl Table {
    /// One type for all requests of this name.
    pub(crate) fn add(&mut self, name: String) {
        let first = self.next();
        self.names.push(name.clone());
        let row = Row { first, classes: 1, class_of: None };
        self.rows.insert(name, row);
    }

    /// So many types for the requests of this name. What is beyond the last class belongs to that.
    pub(crate) fn add_classes(&mut self, name: String, classes: usize, class_of: ClassOf) {
        let first = self.next();
        let classes = u32::try_from(classes.max(1)).expect("classes are counted in u32");
        let names = (0..classes).map(|class| format!("{name} class {class}"));
        self.names.extend(names);
        let class_of = Some(class_of);
        let row = Row { first, classes, class_of };
        self.rows.insert(name, row);
    }

    /// The number of the type that is added next.
    pub(crate) fn next(&self) -> u32 {
        u32::try_from(self.names.len()).expect("types are counted in u32")
    }

    pub(crate) fn find(&self, name: &str, parts: &Parts<'_>) -> Option<RequestType> {
        let row = self.rows.get(name)?;
        let class = row.class_of.as_ref().map_or(0, |class_of| class_of(parts));
        let class = u32::try_from(class).unwrap_or(u32::MAX);
        Some(RequestType::new(row.first + class.min(row.classes - 1)))
    }

    pub(crate) fn types(&self) -> Vec<TypeSpec> {
        self.names.iter().map(TypeSpec::new).collect()
    }
}

impl std::fmt::Debug for Table {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(&self.names).finish()
    }
}
