//! What a commit adds to the prefix cache.

use super::slots::Held;
use super::{Books, Pools};
use crate::ids::Token;
use crate::prefix::CheckpointRef;

/// Publishes every page that `len` committed tokens fill. `tokens` are the known
/// ones and reach at least as far.
pub(super) fn publish_pages(
    pools: &mut Pools,
    books: &mut Books,
    held: &mut Held,
    tokens: &[Token],
    len: u32,
) {
    let size = pools.pages.page_size();
    let Some(mut path) = held.path.take() else { return };
    while held.publish_at <= len {
        let (page, end) = (&held.pages[held.published as usize], held.publish_at as usize);
        let edge = &tokens[end - size as usize..end];
        path = pools.cache.publish_page(&mut pools.pages, path, edge, page);
        held.published += 1;
        held.publish_at += size;
        books.counters.pages_published += 1;
    }
    held.path = Some(path);
}

/// Publishes the checkpoint at `boundary`, with the pages below it.
pub(super) fn publish_checkpoint(
    pools: &mut Pools,
    books: &mut Books,
    held: &mut Held,
    tokens: &[Token],
    boundary: u32,
    row: CheckpointRef,
) {
    publish_pages(pools, books, held, tokens, boundary);
    let size = pools.pages.page_size();
    let whole = boundary / size;
    // The path may already be past the boundary's last whole page only if pages
    // were published out of order.
    let Some(path) = held.path.as_ref().filter(|_| held.published == whole) else {
        return pools.cache.free_checkpoint(row);
    };
    let tail = &tokens[(whole * size) as usize..boundary as usize];
    let page = if tail.is_empty() { None } else { Some(&held.pages[whole as usize]) };
    pools.cache.publish_checkpoint(&mut pools.pages, path, tail, page, row);
    books.counters.checkpoints_published += 1;
}
