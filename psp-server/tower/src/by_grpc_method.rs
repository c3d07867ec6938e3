//! Types by the methods of gRPC.

use http::Request;
use psp_pool::{RequestType, TypeSpec};

use crate::classify::Classify;
use crate::parts::Parts;
use crate::table::Table;

/// Types calls by their methods, `/package.Service/Method`. A method that it was not told is `UNKNOWN`: who calls may
/// name any.
///
/// ```
/// use psp_tower::{ByGrpcMethod, decade};
///
/// let methods = ByGrpcMethod::new(["/shop.Shop/Price"])
///     .by("/shop.Shop/Report", 6, |parts| {
///         let days = parts.headers.get("days").and_then(|it| it.to_str().ok());
///         decade(days.and_then(|it| it.parse().ok()).unwrap_or(0))
///     });
/// assert_eq!(methods.types().len(), 7);
/// ```
#[derive(Debug, Default)]
pub struct ByGrpcMethod {
    table: Table,
}

impl ByGrpcMethod {
    /// A type for each of these methods.
    pub fn new(methods: impl IntoIterator<Item = impl Into<String>>) -> Self {
        let mut table = Table::default();
        for method in methods {
            table.add(method.into());
        }
        Self { table }
    }

    /// So many types for one method whose cost depends on its metadata: `class` says which. What is beyond the last one
    /// belongs to that.
    #[must_use]
    pub fn by(
        mut self,
        method: impl Into<String>,
        classes: usize,
        class: impl Fn(&Parts<'_>) -> usize + Send + Sync + 'static,
    ) -> Self {
        self.table.add_classes(method.into(), classes, Box::new(class));
        self
    }

    /// The types, for [`Builder::types`](psp_pool::Builder::types).
    #[must_use]
    pub fn types(&self) -> Vec<TypeSpec> {
        self.table.types()
    }
}

impl<B> Classify<Request<B>> for ByGrpcMethod {
    fn classify(&self, request: &Request<B>) -> RequestType {
        let parts = Parts::of(request);
        let found = self.table.find(request.uri().path(), &parts);
        found.unwrap_or(RequestType::UNKNOWN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn methods_have_types_and_strangers_have_none() {
        let methods = ByGrpcMethod::new(["/a.A/One", "/a.A/Two"])
            .by("/a.A/Three", 2, |parts| usize::from(parts.headers.contains_key("long")) * 100);
        let names: Vec<_> = methods.types().into_iter().map(|it| it.name).collect();
        let three = ["/a.A/Three class 0", "/a.A/Three class 1"];
        assert_eq!(names, ["/a.A/One", "/a.A/Two", three[0], three[1]]);
        let classify = |path, header| {
            let request = Request::post(path).header(header, "1").body(()).unwrap();
            methods.classify(&request).index()
        };
        assert_eq!(classify("/a.A/Two", "long"), Some(1));
        assert_eq!(classify("/a.A/Three", "short"), Some(2));
        assert_eq!(classify("/a.A/Three", "long"), Some(3));
        assert_eq!(classify("/a.A/Four", "long"), None);
    }
}
