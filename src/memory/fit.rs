//! From a budget to counts.

use super::error::FitError;
use super::formulas::{Formulas, Sizes};
use super::options::{MAX_CHECKPOINTS, MAX_PAGES, MemoryOptions};
use super::plan::MemoryPlan;
use super::shape::ModelShape;

/// Checkpoint rows a request, where memory allows: the last page boundary and the
/// end of its prompt, the end of its turn, and one on a path that it shares.
const CHECKPOINTS_PER_REQUEST: u64 = 4;

/// Sizes every pool: `num_pages` if given, otherwise as many pages as the budget
/// holds beside the rows of `max_num_seqs` requests and the checkpoints. One request
/// of `max_model_len` tokens always fits into a budget that is accepted.
///
/// # Errors
/// [`FitError`] naming a bad setting, or the pool that the budget does not hold, the
/// bytes missing and the way out.
pub fn fit(shape: &ModelShape, options: &MemoryOptions) -> Result<MemoryPlan, FitError> {
    shape.validate()?;
    options.validate()?;
    let formulas = Formulas::new(shape, options);
    let sizes = match (options.num_pages, options.memory_budget) {
        (Some(num_pages), budget) => explicit(&formulas, options, num_pages, budget)?,
        (None, Some(budget)) => Fit { formulas, shape, options, budget }.sizes()?,
        (None, None) => {
            return Err(FitError::setting(
                "memory_budget",
                "neither memory_budget nor num_pages is given: give one of them",
            ));
        }
    };
    Ok(MemoryPlan::new(shape, options, sizes))
}

fn explicit(
    formulas: &Formulas<'_>,
    options: &MemoryOptions,
    num_pages: u64,
    budget: Option<u64>,
) -> Result<Sizes, FitError> {
    let default = if options.enable_prefix_caching {
        CHECKPOINTS_PER_REQUEST * options.max_num_seqs
    } else {
        0
    };
    let sizes = Sizes {
        num_pages,
        num_states: options.max_num_seqs,
        num_checkpoints: options.num_checkpoints.unwrap_or(default),
    };
    let total = formulas.total(sizes);
    match budget {
        Some(budget) if total > budget => {
            Err(FitError::Pages { asked: num_pages, budget, missing: total - budget })
        }
        None if total == u64::MAX => {
            Err(FitError::setting("num_pages", format!("{num_pages} pages exceed 64-bit sizes")))
        }
        _ => Ok(sizes),
    }
}

struct Fit<'a> {
    formulas: Formulas<'a>,
    shape: &'a ModelShape,
    options: &'a MemoryOptions,
    budget: u64,
}

impl Fit<'_> {
    fn sizes(&self) -> Result<Sizes, FitError> {
        let least = self.least()?;
        let free = self.budget - self.formulas.total(least);
        let by_share = self.options.num_checkpoints.is_none() && self.options.enable_prefix_caching;
        let more = if by_share { self.checkpoints(least, free) } else { 0 };
        let left = free - more * self.formulas.checkpoint();
        Ok(Sizes {
            num_pages: (least.num_pages + left / self.formulas.page()).min(MAX_PAGES),
            num_states: least.num_states,
            num_checkpoints: least.num_checkpoints + more,
        })
    }

    /// The least that has to fit: all rows, the checkpoints asked for (or the one that
    /// a prefix hit needs), and the pages of one request of `max_model_len` tokens.
    fn least(&self) -> Result<Sizes, FitError> {
        let options = self.options;
        let one_checkpoint = u64::from(options.enable_prefix_caching);
        let one = Sizes {
            num_pages: options.pages_for(options.max_model_len),
            num_states: 1,
            num_checkpoints: one_checkpoint,
        };
        self.check(one, |pool, missing| match pool {
            "weights" => {
                FitError::Weights { weights: self.shape.weight_bytes, budget: self.budget, missing }
            }
            _ => FitError::OneRequest {
                pool,
                budget: self.budget,
                missing,
                max_model_len: options.max_model_len,
            },
        })?;
        let rows = Sizes { num_states: options.max_num_seqs, ..one };
        self.check(rows, |pool, missing| FitError::Rows {
            pool,
            asked: options.max_num_seqs,
            fits: 1 + (self.budget - self.formulas.total(one)) / self.formulas.rows(),
            budget: self.budget,
            missing,
        })?;
        let Some(asked) = options.num_checkpoints else {
            return Ok(rows);
        };
        let least = Sizes { num_checkpoints: asked, ..rows };
        self.check(least, |_, missing| FitError::Checkpoints {
            asked,
            fits: one_checkpoint
                + (self.budget - self.formulas.total(rows)) / self.formulas.checkpoint(),
            budget: self.budget,
            missing,
        })?;
        Ok(least)
    }

    /// Refuses sizes beyond the budget, with the first pool that does not fit and the
    /// bytes missing. Pages come last: they are what is left for everything else.
    fn check(
        &self,
        sizes: Sizes,
        error: impl FnOnce(&'static str, u64) -> FitError,
    ) -> Result<(), FitError> {
        let total = self.formulas.total(sizes);
        if total <= self.budget {
            return Ok(());
        }
        let mut left = self.budget;
        let mut pools = self.formulas.pools(sizes);
        pools.sort_by_key(|pool| pool.name == "kv_pages");
        for pool in pools {
            match left.checked_sub(pool.bytes) {
                Some(rest) => left = rest,
                None => return Err(error(pool.name, total - self.budget)),
            }
        }
        Ok(())
    }

    /// Checkpoints beyond the least ones: 4 a request within their share of the free
    /// bytes. Bytes that stay free when all requests have pages and checkpoints serve
    /// the cache alone, and the checkpoints get their share of these.
    fn checkpoints(&self, least: Sizes, free: u64) -> u64 {
        let options = self.options;
        let each = self.formulas.checkpoint();
        let share = |bytes: u64| bytes / 100 * options.checkpoint_share / each;
        let wanted =
            (CHECKPOINTS_PER_REQUEST * options.max_num_seqs).saturating_sub(least.num_checkpoints);
        let pages = (options.max_num_seqs * options.pages_for(options.request_tokens()))
            .saturating_sub(least.num_pages);
        let all =
            wanted.saturating_mul(each).saturating_add(pages.saturating_mul(self.formulas.page()));
        let more = match free.checked_sub(all) {
            Some(surplus) => wanted + share(surplus),
            None => wanted.min(share(free)),
        };
        more.min(MAX_CHECKPOINTS - least.num_checkpoints)
    }
}
