//! The two arrays of a step: the tables of their fields, and typed access.
//!
//! Both arrays are int32 with fixed offsets. A field's place depends on the
//! config alone, so device views are made once.

mod dims;
mod plan_fields;
mod reader;
mod result_fields;
mod table;
mod writer;

pub use dims::{Dims, INLINE_STOP_IDS, MAX_STOP_BITMAPS};
pub use plan_fields::{
    PlanColumns, PlanView, ROW_DECODE, ROW_PREFILL, ROW_PREFILL_FINAL, plan_fields, plan_len,
};
pub use reader::{ResultReader, RowResult};
pub use result_fields::{
    FINISH_LENGTH, FINISH_NONE, FINISH_STOP, ResultColumns, ResultView, result_fields, result_len,
};
pub use table::Field;
pub use writer::{PlanHead, PlanRow, PlanWriter, Start};
