//! A macro for option structs.

/// Defines `with_FIELD` methods for the fields of an option struct.
///
/// Option structs are `#[non_exhaustive]`, so that new options do not break callers. Other crates build them from the
/// default: `InspectOptions::default().with_hash(true)`. All fields are public and can also be assigned.
#[macro_export]
macro_rules! with_fields {
    ($name:ident { $($with:ident($field:ident: $type:ty)),* $(,)? }) => {
        impl $name {$(
            #[doc = concat!("Sets [`", stringify!($field), "`](Self::", stringify!($field), ").")]
            #[must_use]
            pub fn $with(mut self, $field: $type) -> Self {
                self.$field = $field;
                self
            }
        )*}
    };
}
