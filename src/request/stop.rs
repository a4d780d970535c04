//! Stop strings, found on token bytes as they arrive.
//!
//! Bytes, not characters: a stop may begin inside a token, span several, or cut
//! a multi-byte character, and the place of the cut is exact. Only a tail as
//! long as the longest stop is kept.

/// Where a stop string was found in the output's bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StopMatch {
    /// Bytes before the match: the text to keep.
    pub start: u64,
    /// Bytes up to and with the match.
    pub end: u64,
}

/// Incremental search for a request's stop strings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StopMatcher {
    stops: Vec<Vec<u8>>,
    longest: usize,
    tail: Vec<u8>,
    seen: u64,
}

impl StopMatcher {
    /// A matcher at the beginning of the output.
    #[must_use]
    pub fn new(stops: Vec<Vec<u8>>) -> Self {
        let longest = stops.iter().map(Vec::len).max().unwrap_or(0);
        Self { stops, longest, tail: Vec::new(), seen: 0 }
    }

    /// Whether there is nothing to look for.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.stops.is_empty()
    }

    /// Takes the next token's bytes; gives the match that ends first in them,
    /// the longest one if several end at the same byte. With `may_match` false
    /// the bytes count as text that later matches may begin in.
    pub fn push(&mut self, bytes: &[u8], may_match: bool) -> Option<StopMatch> {
        for &byte in bytes {
            self.tail.push(byte);
            self.seen += 1;
            if may_match && let Some(len) = self.match_len() {
                return Some(StopMatch { start: self.seen - len as u64, end: self.seen });
            }
        }
        // Trimming at twice the length keeps the shifts rare.
        if self.tail.len() > 2 * self.longest {
            self.tail.drain(..self.tail.len() - self.longest);
        }
        None
    }

    fn match_len(&self) -> Option<usize> {
        let ends = |stop: &&Vec<u8>| self.tail.ends_with(stop);
        self.stops.iter().filter(ends).map(Vec::len).max()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn first_match(text: &[u8], stops: &[Vec<u8>]) -> Option<StopMatch> {
        for end in 1..=text.len() {
            let found = stops.iter().filter(|s| text[..end].ends_with(s)).map(Vec::len).max();
            if let Some(len) = found {
                return Some(StopMatch { start: (end - len) as u64, end: end as u64 });
            }
        }
        None
    }

    #[test]
    fn a_stop_inside_a_character_is_cut_at_the_byte() {
        let euro = "€".as_bytes();
        let mut matcher = StopMatcher::new(vec![euro[1..].to_vec()]);
        assert_eq!(matcher.push(b"a", true), None);
        assert_eq!(matcher.push(euro, true), Some(StopMatch { start: 2, end: 4 }));
    }

    #[test]
    fn text_before_min_tokens_may_begin_a_match_but_not_end_one() {
        let mut matcher = StopMatcher::new(vec![b"ab".to_vec()]);
        assert_eq!(matcher.push(b"aba", false), None);
        assert_eq!(matcher.push(b"b", true), Some(StopMatch { start: 2, end: 4 }));
    }

    proptest! {
        #[test]
        fn any_split_finds_what_a_whole_search_finds(
            text in prop::collection::vec(0_u8..3, 0..60),
            stops in prop::collection::vec(prop::collection::vec(0_u8..3, 1..5), 1..4),
            cuts in prop::collection::vec(1_usize..4, 1..60),
        ) {
            let mut matcher = StopMatcher::new(stops.clone());
            let mut rest = text.as_slice();
            let mut found = None;
            for cut in cuts.into_iter().cycle() {
                if rest.is_empty() || found.is_some() { break; }
                let (now, later) = rest.split_at(cut.min(rest.len()));
                found = matcher.push(now, true);
                rest = later;
            }
            prop_assert_eq!(found, first_match(&text, &stops));
        }
    }
}
