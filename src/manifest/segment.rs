//! One named tensor of a page or of a checkpoint.

/// The element type of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Dtype {
    /// 4 bytes.
    Float32,
    /// 2 bytes.
    Bfloat16,
}

impl Dtype {
    /// The dtype of a validated element size: 4 bytes are float32, 2 are bfloat16.
    #[must_use]
    pub const fn of_bytes(bytes: u64) -> Self {
        if bytes == 4 { Self::Float32 } else { Self::Bfloat16 }
    }

    /// Bytes of an element.
    #[must_use]
    pub const fn bytes(self) -> u64 {
        match self {
            Self::Float32 => 4,
            Self::Bfloat16 => 2,
        }
    }

    /// The name in configurations.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Float32 => "float32",
            Self::Bfloat16 => "bfloat16",
        }
    }
}

/// A tensor by its global shape, as if one rank held all of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Segment {
    /// Unique within a page or a checkpoint.
    pub name: &'static str,
    /// Element type.
    pub dtype: Dtype,
    /// Global heads into which ranks may split the segment; 1 where it stays whole.
    /// Conv channels split by key head, each with its group of value heads.
    pub heads: u64,
    /// Global shape.
    pub shape: Vec<u64>,
}

impl Segment {
    pub(super) const fn new(name: &'static str, dtype: Dtype, heads: u64, shape: Vec<u64>) -> Self {
        Self { name, dtype, heads, shape }
    }

    /// Bytes of the whole segment.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.shape.iter().fold(self.dtype.bytes(), |bytes, &size| bytes.saturating_mul(size))
    }
}
