//! A device that accepts 1..=T tokens a row in turn and obeys the result's laws,
//! at next to no cost. It is not timed.

use mtpcore::step::{Dims, PlanView, ROW_DECODE, ROW_PREFILL_FINAL, ResultColumns, result_len};

#[derive(Debug, Clone, Copy, Default)]
struct Request {
    seq_len: u32,
    tokens_left: u32,
    done: bool,
}

/// Counts of every request, and the result of the step before.
pub(crate) struct Device {
    dims: Dims,
    requests: Vec<Request>,
    random: u64,
}

impl Device {
    pub(crate) fn new(dims: Dims) -> Self {
        Self { dims, requests: vec![Request::default(); dims.rows + 1], random: 1 }
    }

    pub(crate) fn result(&self) -> Vec<i32> {
        vec![0; result_len(&self.dims)]
    }

    /// A pseudo-random number (xorshift).
    pub(crate) fn random(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random
    }

    pub(crate) fn run(&mut self, plan: &[i32], result: &mut [i32]) {
        let dims = self.dims;
        result.fill(0);
        let plan = PlanView::split(plan, &dims).expect("the plan has the table's length");
        let mut to = ResultColumns::split(result, &dims).expect("so has the result");
        to.step_id[0] = plan.step_id[0];
        to.num_rows[0] = plan.num_rows[0];
        for i in 0..plan.num_starts[0] as usize {
            self.requests[plan.start_req_idx[i] as usize] = Request {
                seq_len: plan.start_seq_len[i] as u32,
                tokens_left: plan.start_tokens_left[i] as u32,
                done: false,
            };
        }
        for row in 0..plan.num_rows[0] as usize {
            self.row(&plan, row, &mut to);
        }
        for entry in 0..plan.num_armed[0] as usize {
            let row = plan.armed_row[entry] as usize;
            to.fired[entry] = i32::from(plan.row_kind[row] != ROW_DECODE);
        }
    }

    fn row(&mut self, plan: &PlanView<'_>, row: usize, to: &mut ResultColumns<'_>) {
        let random = self.random();
        let width = self.dims.verify_width as u32;
        let request = &mut self.requests[plan.row_req_idx[row] as usize];
        if request.done {
            return;
        }
        let accepted = if plan.row_kind[row] == ROW_DECODE {
            let run = width.min(request.tokens_left);
            to.rows_run[row] = run as i32;
            let accepted = (1 + (random % u64::from(width)) as u32).min(run);
            request.seq_len += accepted;
            accepted
        } else {
            to.rows_run[row] = plan.row_query_len[row];
            request.seq_len += plan.row_query_len[row] as u32;
            u32::from(plan.row_kind[row] == ROW_PREFILL_FINAL)
        };
        to.num_accepted[row] = accepted as i32;
        for place in &mut to.tokens[row * width as usize..][..accepted as usize] {
            *place = (random >> 40) as i32 % 30_000;
        }
        request.tokens_left -= accepted;
        if request.tokens_left == 0 && accepted > 0 {
            request.done = true;
            to.finish[row] = 2;
            to.end_fired[row] = i32::from(plan.row_end_checkpoint[row] != 0);
        }
    }
}
