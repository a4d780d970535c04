//! Whose pages and checkpoints: they serve nobody else.

use crate::state::StateMode;

/// Identity of model, drafter and state mode.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Identity {
    /// The model: a digest or a name that changes with the weights.
    pub model: String,
    /// The drafter; empty without one.
    pub drafter: String,
    /// How the state is stored: the modes round differently.
    pub mode: StateMode,
}

impl Identity {
    /// Bytes for keys: each part behind its length, so that no two identities give
    /// the same bytes.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for part in [self.model.as_str(), self.drafter.as_str(), self.mode.name()] {
            bytes.extend_from_slice(&(part.len() as u64).to_le_bytes());
            bytes.extend_from_slice(part.as_bytes());
        }
        bytes
    }
}
