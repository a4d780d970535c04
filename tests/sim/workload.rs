//! Random settings and requests.

use mtpcore::config::Config;
use mtpcore::request::{RequestSpec, SamplingSpec};

use super::rng::Rng;

/// Tokens of a few bytes; one has none, one ends inside a character.
pub(crate) fn vocabulary(size: u32) -> Vec<Vec<u8>> {
    let some: [&[u8]; 6] = [b"a", b"b", b"ab", "\u{20ac}".as_bytes(), b"", &[0xe2, 0x82]];
    (0..size as usize)
        .map(|token| match some.get(token) {
            Some(bytes) => bytes.to_vec(),
            None => format!("t{token}").into_bytes(),
        })
        .collect()
}

/// Small pools, so that eviction, preemption and waiting happen all the time.
pub(crate) fn config(rng: &mut Rng) -> Config {
    let mtp_step = rng.range(0, 4);
    let page_size = *rng.pick(&[1, 2, 4, 8]);
    let max_num_seqs = rng.range(1, 6);
    let max_model_len = rng.range(8, 60);
    let whole = max_model_len.div_ceil(page_size);
    let enable_prefix_caching = !rng.one_in(4);
    Config {
        max_num_seqs,
        max_num_batched_tokens: rng.range(mtp_step + 1, 40),
        page_size,
        num_pages: rng.range(whole.div_ceil(2), whole * 3),
        num_states: rng.range(1, max_num_seqs + 1),
        num_checkpoints: rng.range(u32::from(enable_prefix_caching), 14),
        num_rings: 0,
        window: 0,
        max_model_len,
        vocab_size: rng.range(2, 40),
        mtp_step,
        overlap_depth: rng.range(0, 1),
        enable_prefix_caching,
        checkpoint_interval: page_size * rng.range(0, 4),
        max_queue: rng.range(2, 12),
        page_bytes: 1024,
        checkpoint_bytes: 8192,
    }
}

/// A request; `earlier` are texts that later prompts may begin with.
pub(crate) fn request(rng: &mut Rng, config: &Config, earlier: &[Vec<i32>]) -> RequestSpec {
    let vocab = config.vocab_size;
    // Two tokens only, for heavy sharing.
    let token = |rng: &mut Rng| rng.range(0, vocab.min(2) - 1) as i32;
    let mut prompt = Vec::new();
    if !earlier.is_empty() && !rng.one_in(3) {
        let text = rng.pick(earlier).clone();
        let keep = if rng.one_in(2) { text.len() as u32 } else { rng.range(0, text.len() as u32) };
        prompt.extend_from_slice(&text[..keep as usize]);
    }
    let more = rng.range(u32::from(prompt.is_empty()), config.max_model_len / 2);
    if prompt.is_empty() || !rng.one_in(3) {
        prompt.extend((0..more).map(|_| token(rng)));
    }
    let longest = if rng.one_in(50) { config.max_model_len + 1 } else { config.max_model_len - 1 };
    prompt.truncate(longest as usize);
    let max_tokens = i64::from(rng.range(1, 30));
    let stops = if rng.one_in(3) { rng.range(1, vocab.min(12)) } else { 0 };
    let strings: [&[u8]; 4] = [b"ba", &[0x82, 0xac], b"aab", b"b"];
    let with_stop = rng.one_in(4);
    RequestSpec {
        prompt,
        max_tokens,
        min_tokens: if rng.one_in(3) { i64::from(rng.range(0, max_tokens as u32)) } else { 0 },
        sampling: SamplingSpec {
            temperature: if rng.one_in(2) { 0.7 } else { 0.0 },
            top_k: 0,
            top_p: 1.0,
            seed: rng.next(),
            sample_index: i64::from(rng.range(0, 3)),
            logprobs: -1,
        },
        stop_token_ids: (0..stops).map(|_| i64::from(rng.range(0, vocab - 1))).collect(),
        stop: if with_stop { vec![rng.pick(&strings).to_vec()] } else { Vec::new() },
        priority: i64::from(rng.range(0, 2)),
        salt: if rng.one_in(8) { b"tenant".to_vec() } else { Vec::new() },
        read_cache: !rng.one_in(10),
    }
}
