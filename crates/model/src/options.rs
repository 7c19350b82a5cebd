//! How structs of options are built.

/// Defines a method `with_FIELD` for fields of a struct of options.
///
/// Structs of options are `#[non_exhaustive]`, so that new options break nobody. Outside their crate they are built from
/// their default: `InspectOptions::default().with_hash(true)`; all fields are public, and may be assigned, too.
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
