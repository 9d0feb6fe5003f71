//! How much goes out at once.

/// A batch of fewer takes more, whatever waits.
const LEAST: usize = 4;

/// Keeps batches so small that one is put together while another is with the server: half of what its callers have waiting
/// and unanswered together, so that neither side stands still until the other has finished.
#[derive(Debug, Default)]
pub(super) struct Pace {
    waiting: usize,
    /// The most that was waiting and unanswered, of late.
    peak: usize,
}

impl Pace {
    /// Says whether a batch of so many takes no more.
    pub(super) fn is_full(&self, batch: usize) -> bool {
        batch >= LEAST.max(self.peak.max(self.waiting).div_ceil(2))
    }

    /// One more waits.
    pub(super) fn pushed(&mut self) {
        self.waiting += 1;
    }

    /// A batch of so many goes out while so many are unanswered.
    pub(super) fn popped(&mut self, batch: usize, unanswered: usize) {
        let outstanding = self.waiting + unanswered;
        self.peak = outstanding.max(self.peak - self.peak.div_ceil(8));
        self.waiting = self.waiting.saturating_sub(batch);
    }

    /// A batch of so many waits again.
    pub(super) fn put_back(&mut self, batch: usize) {
        self.waiting += batch;
    }

    /// Nothing waits any longer.
    pub(super) fn drained(&mut self) {
        self.waiting = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::Pace;

    /// Pushes so many, and returns the sizes of their batches.
    fn batches(pace: &mut Pace, count: usize) -> Vec<usize> {
        let mut batches = vec![0];
        for _ in 0..count {
            if pace.is_full(batches[batches.len() - 1]) {
                batches.push(0);
            }
            *batches.last_mut().unwrap() += 1;
            pace.pushed();
        }
        batches
    }

    #[test]
    fn those_who_come_at_once_at_first_are_few_batches() {
        assert_eq!(batches(&mut Pace::default(), 256), [4, 4, 8, 16, 32, 64, 128]);
    }

    #[test]
    fn half_of_what_is_under_way_is_a_batch() {
        let mut pace = Pace::default();
        for batch in batches(&mut pace, 256) {
            pace.popped(batch, 256 - pace.waiting);
        }
        assert_eq!(batches(&mut pace, 256), [128, 128]);
    }

    #[test]
    fn a_caller_alone_and_a_few_are_one_batch() {
        let mut pace = Pace::default();
        for count in [1, 4, 1] {
            assert_eq!(batches(&mut pace, count), [count]);
            pace.popped(count, 0);
        }
    }

    #[test]
    fn a_crowd_is_forgotten() {
        let mut pace = Pace::default();
        batches(&mut pace, 1_000);
        pace.popped(1_000, 0);
        for _ in 0..50 {
            pace.pushed();
            pace.popped(1, 0);
        }
        assert_eq!(batches(&mut pace, 16), [4, 4, 8]);
    }
}
