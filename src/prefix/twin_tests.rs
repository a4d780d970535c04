//! Random operations on the tree and on its twin.

use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;

use super::twin::{Known, Running, World};
use crate::ids::Token;
use crate::pages::PageRef;

#[derive(Debug, Clone)]
enum Op {
    Admit { salt: usize, tokens: Vec<Token> },
    PublishPage(usize),
    PublishCheckpoint { who: usize, tail: usize },
    Unpin(usize),
    FreePages(usize),
    Finish(usize),
    Evict(usize),
    TakeRow,
    FreeRow,
}

fn op() -> impl Strategy<Value = Op> {
    let tokens = prop::collection::vec(0_u32..2, 0..9);
    prop_oneof![
        4 => (0_usize..2, tokens).prop_map(|(salt, tokens)| Op::Admit { salt, tokens }),
        6 => any::<usize>().prop_map(Op::PublishPage),
        5 => (any::<usize>(), 0_usize..3)
            .prop_map(|(who, tail)| Op::PublishCheckpoint { who, tail }),
        1 => any::<usize>().prop_map(Op::Unpin),
        1 => any::<usize>().prop_map(Op::FreePages),
        3 => any::<usize>().prop_map(Op::Finish),
        1 => (0_usize..12).prop_map(Op::Evict),
        1 => Just(Op::TakeRow),
        1 => Just(Op::FreeRow),
    ]
}

impl World {
    fn take_page(&mut self) -> Option<PageRef> {
        self.cache.evict_pages(&mut self.pool, 1);
        self.reconcile().unwrap();
        self.pool.try_take()
    }

    fn apply(&mut self, op: Op) -> TestCaseResult {
        match op {
            Op::Admit { salt, tokens } => self.admit(salt, tokens)?,
            Op::PublishPage(who) if !self.running.is_empty() => {
                self.publish_page(who % self.running.len())?;
            }
            Op::PublishCheckpoint { who, tail } if !self.running.is_empty() => {
                self.publish_checkpoint(who % self.running.len(), tail);
            }
            Op::Unpin(who) if !self.running.is_empty() => {
                let at = who % self.running.len();
                if let Some((_, pinned)) = self.running[at].pinned.take() {
                    self.cache.unpin(pinned);
                }
            }
            Op::FreePages(who) if !self.running.is_empty() => {
                let at = who % self.running.len();
                for page in self.running[at].held.drain(..) {
                    self.pool.free(page);
                }
            }
            Op::Finish(who) if !self.running.is_empty() => {
                let request = self.running.swap_remove(who % self.running.len());
                self.finish(request);
            }
            Op::Evict(want) => self.evict(want)?,
            Op::TakeRow => self.take_row()?,
            Op::FreeRow => {
                if let Some(row) = self.taken.pop() {
                    self.cache.free_checkpoint(row);
                }
            }
            _ => {}
        }
        self.check()
    }

    fn admit(&mut self, salt: usize, tokens: Vec<Token>) -> TestCaseResult {
        let of_prefix = |k: &&Known| k.salt == salt && tokens.starts_with(&k.tokens);
        let longest = |wanted: &dyn Fn(&Known) -> bool| {
            let found = self.known.iter().filter(of_prefix).filter(|k| wanted(k));
            found.map(|k| k.tokens.len()).max().unwrap_or(0)
        };
        let hit_len = longest(&|k| k.has_checkpoint);
        let leave_at = longest(&|k| k.tokens.len() % self.size == 0);
        let page_of = |end: usize| {
            self.known.iter().filter(of_prefix).find(|k| k.tokens.len() == end).map(|k| k.page)
        };
        let num_whole = hit_len / self.size;
        let whole: Vec<_> = (1..=num_whole).map(|page| page_of(page * self.size)).collect();
        let partial = page_of(hit_len).filter(|_| hit_len % self.size != 0);

        let probe = self.cache.probe(&self.salts[salt], &tokens);
        prop_assert_eq!(probe.hit_tokens as usize, hit_len);
        prop_assert_eq!(probe.leave_at as usize, leave_at);
        let hit = self.cache.admit(&mut self.pool, probe);
        prop_assert_eq!(hit.num_tokens as usize, hit_len);
        let shared: Vec<_> = hit.pages.iter().map(|page| Some(page.id())).collect();
        prop_assert_eq!(shared, whole);
        prop_assert_eq!(hit.partial.as_ref().map(|p| p.src.id()), partial);
        prop_assert_eq!(hit.checkpoint.is_some(), hit_len > 0);
        let mut held = hit.pages;
        held.extend(hit.partial.map(|partial| partial.src));
        self.running.push(Running {
            salt,
            tokens,
            path: hit.path,
            num_published: num_whole,
            pinned: hit.checkpoint.map(|pinned| (hit_len, pinned)),
            held,
        });
        Ok(())
    }

    fn publish_page(&mut self, at: usize) -> TestCaseResult {
        let size = self.size;
        let start = self.running[at].num_published * size;
        if start + size > self.running[at].tokens.len() {
            return Ok(());
        }
        let Some(page) = self.take_page() else {
            return Ok(());
        };
        let Running { salt, tokens, path, num_published, pinned, mut held } =
            self.running.swap_remove(at);
        let path =
            self.cache.publish_page(&mut self.pool, path, &tokens[start..start + size], &page);
        let reached = &tokens[..start + size];
        let shared = self.pool.refs(page.id()) > 1;
        prop_assert_eq!(shared, self.find(salt, reached).is_none(), "an existing page stays");
        if shared {
            let tokens = reached.to_vec();
            self.known.push(Known { salt, tokens, page: page.id(), has_checkpoint: false });
        }
        held.push(page);
        let num_published = num_published + 1;
        self.running.push(Running { salt, tokens, path, num_published, pinned, held });
        Ok(())
    }

    fn publish_checkpoint(&mut self, at: usize, tail: usize) {
        let start = self.running[at].end(self.size).len();
        let tail = tail.min(self.size - 1).min(self.running[at].tokens.len() - start);
        let page = if tail > 0 { self.take_page() } else { None };
        if tail > 0 && page.is_none() {
            return;
        }
        let row = self.cache.try_take_checkpoint(&mut self.pool);
        self.reconcile().unwrap();
        if let Some(row) = row {
            let request = &self.running[at];
            let rest = &request.tokens[start..start + tail];
            let (pool, path) = (&mut self.pool, &request.path);
            self.cache.publish_checkpoint(pool, path, rest, page.as_ref(), row);
            let (salt, tokens) = (request.salt, request.tokens[..start + tail].to_vec());
            if let Some(known) = self.find(salt, &tokens) {
                known.has_checkpoint = true;
            } else if let Some(page) = &page {
                self.known.push(Known { salt, tokens, page: page.id(), has_checkpoint: true });
            }
        }
        self.running[at].held.extend(page);
    }

    fn finish(&mut self, request: Running) {
        for page in request.held {
            self.pool.free(page);
        }
        if let Some((_, pinned)) = request.pinned {
            self.cache.unpin(pinned);
        }
        self.cache.release(request.path);
    }

    fn evict(&mut self, want: usize) -> TestCaseResult {
        let before = self.pool.num_free();
        let bound = self.cache.counts().num_evictable_pages;
        let freed = self.cache.evict_pages(&mut self.pool, want);
        prop_assert_eq!(self.pool.num_free(), before + freed);
        prop_assert!(freed <= bound);
        self.reconcile()?;
        if self.pool.num_free() < want {
            let stuck = self.known.iter().all(|known| {
                let of_tree = self.known.iter().filter(|k| k.page == known.page).count();
                self.is_held(known)
                    || self.has_child(known)
                    || self.pool.refs(known.page) as usize > of_tree
            });
            prop_assert!(stuck, "gave up while a page could go");
        }
        Ok(())
    }

    fn take_row(&mut self) -> TestCaseResult {
        let row = self.cache.try_take_checkpoint(&mut self.pool);
        let found_none = row.is_none();
        self.taken.extend(row);
        self.reconcile()?;
        if found_none {
            let all_fixed =
                self.known.iter().filter(|k| k.has_checkpoint).all(|k| self.is_fixed(k));
            prop_assert!(all_fixed, "gave up while a checkpoint could go");
        }
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    #[test]
    fn random_operations_match_a_list(
        size in 1_u32..4,
        num_pages in 2_u32..14,
        num_checkpoints in 0_u32..7,
        collide in any::<bool>(),
        ops in prop::collection::vec(op(), 0..100),
    ) {
        let mut world = World::new(size, num_pages, num_checkpoints, collide);
        for op in ops {
            world.apply(op)?;
        }
        while let Some(request) = world.running.pop() {
            world.finish(request);
        }
        while let Some(row) = world.taken.pop() {
            world.cache.free_checkpoint(row);
        }
        world.evict(num_pages as usize)?;
        prop_assert_eq!(world.pool.num_free(), num_pages as usize);
        prop_assert_eq!(world.cache.counts().num_nodes, 0);
        world.check()?;
    }
}
