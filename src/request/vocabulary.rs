//! The bytes of every token, given once.

/// Token bytes, back to back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Vocabulary {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Vocabulary {
    /// Joins the bytes of tokens 0, 1, and so on.
    pub fn new<T: AsRef<[u8]>>(tokens: impl IntoIterator<Item = T>) -> Self {
        let mut bytes = Vec::new();
        let mut ends = Vec::new();
        for token in tokens {
            bytes.extend_from_slice(token.as_ref());
            ends.push(bytes.len());
        }
        Self { bytes, ends }
    }

    /// The bytes of a token; none for a token past the vocabulary.
    #[must_use]
    pub fn token(&self, token: u32) -> &[u8] {
        let at = token as usize;
        let Some(&end) = self.ends.get(at) else { return &[] };
        let start = if at == 0 { 0 } else { self.ends[at - 1] };
        &self.bytes[start..end]
    }

    /// Number of tokens.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether it has no tokens.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }
}
