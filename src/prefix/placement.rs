//! Where the checkpoints of a prompt are taken.

/// What decides the boundaries of one prompt. All counts are tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Placement {
    /// Tokens of the prompt.
    pub prompt_len: u32,
    /// Tokens restored from the cache; nothing at or below them is taken again.
    pub hit_tokens: u32,
    /// The page boundary at or before the point where the prompt leaves a cached
    /// path, 0 if it follows none.
    pub leave_at: u32,
    /// Tokens in a page.
    pub page_size: u32,
    /// Distance of the coarse checkpoints of a long prompt, rounded down to whole
    /// pages (at least one); 0 takes none.
    pub interval: u32,
}

/// Fills `out` with the boundaries to arm, most useful first, so that a short
/// supply of rows loses the least: the point where the prompt leaves a cached path
/// (siblings will leave it there too), the exact end (the same prompt again), the
/// last page boundary (a prompt that shares all but its last tokens), then the
/// coarse ones from the deepest up. All lie in `hit_tokens + 1..=prompt_len`, none
/// twice.
pub fn place(query: &Placement, out: &mut Vec<u32>) {
    out.clear();
    let Placement { prompt_len, hit_tokens, leave_at, page_size, interval } = *query;
    let mut arm = |boundary: u32| {
        if boundary > hit_tokens && boundary <= prompt_len && !out.contains(&boundary) {
            out.push(boundary);
        }
    };
    arm(leave_at);
    arm(prompt_len);
    arm(prompt_len - prompt_len % page_size);
    if interval > 0 {
        let stride = (interval - interval % page_size).max(page_size);
        let mut boundary = prompt_len - prompt_len % stride;
        while boundary > hit_tokens {
            // Only the three above can repeat one of these, so the search is short.
            if !out.iter().take(3).any(|b| *b == boundary) {
                out.push(boundary);
            }
            boundary -= stride;
        }
    }
}
