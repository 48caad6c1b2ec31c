//! Limits the CPU time that pages take: a pod has little, and most of it is for the operator.

use std::sync::Arc;

use tokio::sync::Mutex;
use tokio::time::{Instant, sleep};

/// Pause after each page, as a multiple of the time that it took. All pages take at most a fifth of one CPU.
const REST: u32 = 4;

/// Renders pages one after the other.
#[derive(Default)]
pub(in crate::cli::dashboard) struct Pace(Arc<Mutex<()>>);

impl Pace {
    /// Renders a page when its turn comes.
    pub(in crate::cli::dashboard) async fn make<T>(&self, page: impl FnOnce() -> T) -> T {
        let turn = Arc::clone(&self.0).lock_owned().await;
        let began = Instant::now();
        let page = page();
        let rest = began.elapsed() * REST;
        // The next page waits, not the person who requested this one.
        tokio::spawn(async move {
            sleep(rest).await;
            drop(turn);
        });
        page
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn the_next_page_waits_for_the_rest_of_the_one_before() {
        let pace = Pace::default();
        let work = || std::thread::sleep(Duration::from_millis(20));
        let began = Instant::now();
        pace.make(work).await;
        pace.make(work).await;
        assert!(began.elapsed() >= Duration::from_millis(120), "{:?}", began.elapsed());
    }
}
