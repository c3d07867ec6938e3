//! Builder-style setters of framings.

/// Writes a builder-style setter for each limit of a framing.
macro_rules! limits {
    ($framing:ident: $($field:ident: $type:ty),* $(,)?) => {
        impl $framing {
            $(
                #[doc = concat!("Sets [`", stringify!($field), "`](field@Self::", stringify!($field), ").")]
                #[must_use]
                pub fn $field(mut self, $field: $type) -> Self {
                    self.$field = $field;
                    self
                }
            )*
        }
    };
}
