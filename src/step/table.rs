//! One definition for a field table: the exported list of names, offsets and
//! capacities, and the two borrowed views that split an array along it.

/// One field of a plan or result array.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Field {
    /// The name, as exported.
    pub name: &'static str,
    /// Where it starts, in int32 words.
    pub offset: usize,
    /// Its length, in int32 words.
    pub capacity: usize,
}

macro_rules! field_table {
    (
        $table:literal, $dims:ident,
        $(#[$fields_doc:meta])* fields $fields:ident,
        $(#[$len_doc:meta])* len $len:ident,
        $(#[$view_doc:meta])* view $view:ident,
        $(#[$columns_doc:meta])* columns $columns:ident,
        { $($(#[$doc:meta])* $name:ident [$capacity:expr],)* }
    ) => {
        $(#[$fields_doc])*
        #[must_use]
        pub fn $fields($dims: &$crate::step::Dims) -> Vec<$crate::step::Field> {
            let mut offset = 0;
            let mut fields = Vec::new();
            $(
                let capacity = $capacity;
                fields.push($crate::step::Field { name: stringify!($name), offset, capacity });
                offset += capacity;
            )*
            debug_assert_eq!(offset, $len($dims));
            fields
        }

        $(#[$len_doc])*
        #[must_use]
        pub fn $len($dims: &$crate::step::Dims) -> usize {
            [$($capacity),*].into_iter().sum()
        }

        $(#[$view_doc])*
        #[derive(Debug, Clone, Copy)]
        pub struct $view<'a> { $($(#[$doc])* pub $name: &'a [i32],)* }

        impl<'a> $view<'a> {
            /// Splits an array along the table.
            ///
            /// # Errors
            /// [`ArrayError`](crate::error::ArrayError) when the array's length is not the table's.
            pub fn split(
                array: &'a [i32],
                $dims: &$crate::step::Dims,
            ) -> Result<Self, $crate::error::ArrayError> {
                $crate::error::ArrayError::check($table, array.len(), $len($dims))?;
                let rest = array;
                $(let ($name, rest) = rest.split_at($capacity);)*
                debug_assert!(rest.is_empty());
                Ok(Self { $($name),* })
            }
        }

        $(#[$columns_doc])*
        #[derive(Debug)]
        pub struct $columns<'a> { $($(#[$doc])* pub $name: &'a mut [i32],)* }

        impl<'a> $columns<'a> {
            /// Splits an array along the table.
            ///
            /// # Errors
            /// [`ArrayError`](crate::error::ArrayError) when the array's length is not the table's.
            pub fn split(
                array: &'a mut [i32],
                $dims: &$crate::step::Dims,
            ) -> Result<Self, $crate::error::ArrayError> {
                $crate::error::ArrayError::check($table, array.len(), $len($dims))?;
                let rest = array;
                $(let ($name, rest) = rest.split_at_mut($capacity);)*
                debug_assert!(rest.is_empty());
                Ok(Self { $($name),* })
            }
        }
    };
}
pub(crate) use field_table;
