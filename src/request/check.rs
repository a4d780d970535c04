//! The one gate between a caller's values and a request.

use super::reject::RejectReason;
use super::spec::RequestSpec;
use crate::config::Config;
use crate::ids::Token;

/// Most stop strings of a request.
pub const MAX_STOP_STRINGS: usize = 64;
/// Most bytes of a stop string.
pub const MAX_STOP_BYTES: usize = 1024;
/// Most bytes of a salt.
pub const MAX_SALT_BYTES: usize = 256;
/// Most logprobs a token.
pub const MAX_LOGPROBS: u32 = 64;

const MAX_TEMPERATURE: f64 = 1e6;

/// The checked values of a request.
#[derive(Debug, Clone, PartialEq)]
pub struct Terms {
    /// Prompt tokens, all in the vocabulary.
    pub prompt: Vec<Token>,
    /// Most tokens to emit, the context limit included.
    pub max_tokens: u32,
    /// Stops are ignored below this output position.
    pub min_tokens: u32,
    /// 0 is greedy.
    pub temperature: f32,
    /// 0 keeps all.
    pub top_k: u32,
    /// Nucleus mass.
    pub top_p: f32,
    /// Seed of the noise.
    pub seed: u64,
    /// Index among the samples of one prompt.
    pub sample_index: u32,
    /// -1 none.
    pub logprobs: i32,
    /// Sorted, without repeats.
    pub stop_token_ids: Vec<Token>,
    /// None empty.
    pub stop: Vec<Vec<u8>>,
    /// Lower runs first.
    pub priority: i32,
    /// Separates tenants.
    pub salt: Vec<u8>,
    /// Whether cached tokens may be used.
    pub read_cache: bool,
}

impl Terms {
    /// Checks a request against the engine's limits.
    ///
    /// # Errors
    /// The first [`RejectReason`] that applies.
    pub fn check(
        spec: RequestSpec,
        config: &Config,
        has_vocabulary: bool,
    ) -> Result<Self, RejectReason> {
        let prompt = check_prompt(&spec.prompt, config)?;
        let room = config.max_model_len - prompt.len() as u32;
        if spec.max_tokens < 1 {
            return Err(RejectReason::MaxTokens(spec.max_tokens));
        }
        if spec.min_tokens < 0 || spec.min_tokens > spec.max_tokens {
            return Err(RejectReason::MinTokens { min: spec.min_tokens, max: spec.max_tokens });
        }
        if spec.min_tokens > i64::from(room) {
            return Err(RejectReason::MinTokensContext {
                min: spec.min_tokens,
                prompt: prompt.len(),
                max: config.max_model_len,
            });
        }
        let max_tokens = spec.max_tokens.min(i64::from(room)) as u32;
        check_pages(prompt.len() as u32 + max_tokens, config)?;
        let sampling = &spec.sampling;
        let temperature = sampling.temperature;
        if !(0.0..=MAX_TEMPERATURE).contains(&temperature) {
            return Err(RejectReason::Temperature(temperature));
        }
        if !(sampling.top_p > 0.0 && sampling.top_p <= 1.0) {
            return Err(RejectReason::TopP(sampling.top_p));
        }
        if sampling.top_k < -1 {
            return Err(RejectReason::TopK(sampling.top_k));
        }
        let sample_index = u32::try_from(sampling.sample_index)
            .ok()
            .filter(|&index| index < 1 << 31)
            .ok_or(RejectReason::SampleIndex(sampling.sample_index))?;
        let logprobs = sampling.logprobs;
        let most = MAX_LOGPROBS.min(config.vocab_size);
        if logprobs < -1 || logprobs > i64::from(most) {
            return Err(RejectReason::Logprobs { given: logprobs, max: most });
        }
        check_stops(&spec.stop, has_vocabulary)?;
        if spec.salt.len() > MAX_SALT_BYTES {
            return Err(RejectReason::SaltTooLong { len: spec.salt.len(), max: MAX_SALT_BYTES });
        }
        let priority =
            i32::try_from(spec.priority).map_err(|_| RejectReason::Priority(spec.priority))?;
        Ok(Self {
            max_tokens,
            min_tokens: spec.min_tokens as u32,
            // Rounding to float32 must not turn a tiny temperature into greedy.
            temperature: if temperature > 0.0 {
                (temperature as f32).max(f32::MIN_POSITIVE)
            } else {
                0.0
            },
            top_k: sampling.top_k.clamp(0, i64::from(config.vocab_size)) as u32,
            top_p: (sampling.top_p as f32).max(f32::MIN_POSITIVE),
            seed: sampling.seed,
            sample_index,
            logprobs: logprobs as i32,
            stop_token_ids: check_stop_tokens(&spec.stop_token_ids, config)?,
            stop: spec.stop,
            priority,
            salt: spec.salt,
            read_cache: spec.read_cache,
            prompt,
        })
    }
}

fn check_prompt(prompt: &[i32], config: &Config) -> Result<Vec<Token>, RejectReason> {
    if prompt.is_empty() {
        return Err(RejectReason::EmptyPrompt);
    }
    if prompt.len() >= config.max_model_len as usize {
        return Err(RejectReason::PromptTooLong { len: prompt.len(), max: config.max_model_len });
    }
    let vocab = config.vocab_size;
    let bad = |&token: &i32| u32::try_from(token).map_or(true, |token| token >= vocab);
    if let Some(index) = prompt.iter().position(bad) {
        let token = i64::from(prompt[index]);
        return Err(RejectReason::TokenOutOfVocabulary { index, token, vocab });
    }
    Ok(prompt.iter().map(|&token| token as Token).collect())
}

fn check_pages(tokens: u32, config: &Config) -> Result<(), RejectReason> {
    let needed = config.pages_for(tokens);
    if needed > config.num_pages {
        return Err(RejectReason::NeedsMorePages { tokens, needed, total: config.num_pages });
    }
    Ok(())
}

fn check_stops(stop: &[Vec<u8>], has_vocabulary: bool) -> Result<(), RejectReason> {
    if stop.len() > MAX_STOP_STRINGS {
        return Err(RejectReason::TooManyStops { given: stop.len(), max: MAX_STOP_STRINGS });
    }
    for (index, bytes) in stop.iter().enumerate() {
        if bytes.is_empty() {
            return Err(RejectReason::EmptyStop { index });
        }
        if bytes.len() > MAX_STOP_BYTES {
            let len = bytes.len();
            return Err(RejectReason::StopTooLong { index, len, max: MAX_STOP_BYTES });
        }
    }
    if !stop.is_empty() && !has_vocabulary {
        return Err(RejectReason::StopWithoutVocabulary);
    }
    Ok(())
}

fn check_stop_tokens(ids: &[i64], config: &Config) -> Result<Vec<Token>, RejectReason> {
    let vocab = config.vocab_size;
    let mut tokens = Vec::with_capacity(ids.len());
    for &token in ids {
        if token < 0 || token >= i64::from(vocab) {
            return Err(RejectReason::StopTokenOutOfVocabulary { token, vocab });
        }
        tokens.push(token as Token);
    }
    tokens.sort_unstable();
    tokens.dedup();
    Ok(tokens)
}
