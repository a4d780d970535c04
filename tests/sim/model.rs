//! A model of hashes. Its recurrent state is the hash of the tokens consumed, the
//! KV of a position is that hash too, and the next token depends on the state, on
//! every KV slot, and on the noise of the request: a wrong page, restore or copy
//! anywhere changes the text.

use mtpcore::request::RequestSpec;

use super::rng::mix;

/// The state before the first token.
pub(crate) const START: u64 = 0x5eed;

/// The state after one token more.
pub(crate) fn consume(state: u64, token: u32) -> u64 {
    mix(state.wrapping_mul(31).wrapping_add(u64::from(token) + 1))
}

/// What attention reads from one slot; the sum over all slots is order-free.
pub(crate) fn attend(kv: u64) -> u64 {
    mix(kv ^ 0xa77e)
}

/// The noise and limits that a request brings to the model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Terms {
    pub(crate) seed: u64,
    pub(crate) sample_index: u32,
    pub(crate) temperature: u32,
    pub(crate) stops: Vec<u32>,
    pub(crate) min_tokens: u32,
    pub(crate) vocab: u32,
}

impl Terms {
    pub(crate) fn sample(&self, state: u64, attention: u64, position: u32) -> u32 {
        let mut x = mix(state ^ attention);
        if self.temperature != 0 {
            x = mix(x ^ self.seed ^ (u64::from(self.sample_index) << 32) ^ u64::from(position));
        }
        (x % u64::from(self.vocab)) as u32
    }

    pub(crate) fn stops_at(&self, token: u32, position: u32) -> bool {
        position >= self.min_tokens && self.stops.contains(&token)
    }
}

/// What a request emits when nothing else exists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Reference {
    pub(crate) tokens: Vec<i32>,
    /// The code of the finish.
    pub(crate) finish: i32,
    pub(crate) stop_bytes: i64,
}

pub(crate) fn reference(spec: &RequestSpec, vocab: &[Vec<u8>], max_model_len: u32) -> Reference {
    let terms = Terms {
        seed: spec.sampling.seed,
        sample_index: spec.sampling.sample_index as u32,
        temperature: (spec.sampling.temperature as f32).to_bits(),
        stops: spec.stop_token_ids.iter().map(|&token| token as u32).collect(),
        min_tokens: spec.min_tokens as u32,
        vocab: vocab.len() as u32,
    };
    let most = (spec.max_tokens as usize).min(max_model_len as usize - spec.prompt.len());
    let (mut state, mut attention) = (START, 0_u64);
    let mut feed = |token: u32| {
        state = consume(state, token);
        attention = attention.wrapping_add(attend(state));
        (state, attention)
    };
    let mut last = (0, 0);
    for &token in &spec.prompt {
        last = feed(token as u32);
    }
    let (mut tokens, mut text) = (Vec::new(), Vec::new());
    loop {
        let position = tokens.len() as u32;
        let token = terms.sample(last.0, last.1, position);
        tokens.push(token as i32);
        if terms.stops_at(token, position) {
            return Reference { tokens, finish: 1, stop_bytes: -1 };
        }
        for &byte in &vocab[token as usize] {
            text.push(byte);
            if position < terms.min_tokens {
                continue;
            }
            let found = spec.stop.iter().filter(|stop| text.ends_with(stop)).map(Vec::len).max();
            if let Some(len) = found {
                let stop_bytes = (text.len() - len) as i64;
                return Reference { tokens, finish: 5, stop_bytes };
            }
        }
        if tokens.len() == most {
            return Reference { tokens, finish: 2, stop_bytes: -1 };
        }
        last = feed(token);
    }
}
