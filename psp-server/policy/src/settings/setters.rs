//! Builder-style setters.

/// Writes a builder-style setter for each field. For the crates of this workspace.
#[doc(hidden)]
#[macro_export]
macro_rules! setters {
    ($($field:ident: $type:ty),* $(,)?) => {
        $(
            #[doc = concat!("Sets [`", stringify!($field), "`](field@Self::", stringify!($field), ").")]
            #[must_use]
            pub fn $field(mut self, $field: $type) -> Self {
                self.$field = $field;
                self
            }
        )*
    };
}

/// Writes the builder-style setter of `quantum_us`, which takes whole numbers too. `$of` makes the field of the number.
macro_rules! quantum_setter {
    ($($of:path)?) => {
        /// Sets [`quantum_us`](field@Self::quantum_us).
        #[must_use]
        pub fn quantum_us(mut self, quantum_us: impl Into<f64>) -> Self {
            self.quantum_us = $($of)?(quantum_us.into());
            self
        }
    };
}

/// Writes the builder-style setter of `spare_finishing`, an optional truth value.
macro_rules! spare_finishing_setter {
    () => {
        /// Sets [`spare_finishing`](field@Self::spare_finishing); `None` leaves it to the policy.
        #[must_use]
        pub fn spare_finishing(mut self, spare_finishing: impl Into<Option<bool>>) -> Self {
            self.spare_finishing = spare_finishing.into();
            self
        }
    };
}
