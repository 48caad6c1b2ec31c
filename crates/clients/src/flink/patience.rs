//! Lets a task give way while Flink has not responded. A JobManager that accepts connections but never responds blocks
//! a task until the deadline, and that task may hold something that others need.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;

/// A response within this time is not reported as slow.
const GRACE: Duration = Duration::from_millis(250);

/// Is notified when the task waits for Flink, and when it continues.
pub trait Patience: Send + Sync {
    /// The response takes long. Several calls may wait at the same time.
    fn step_aside(&self);

    /// The response has arrived, or will not; the task continues when this future ends.
    fn come_back(&self) -> BoxFuture<'_, ()>;
}

tokio::task_local! {
    static PATIENCE: Arc<dyn Patience>;
}

/// Runs `work`, whose calls to Flink notify `patience` when they take long.
pub async fn with<T>(patience: Arc<dyn Patience>, work: impl Future<Output = T>) -> T {
    PATIENCE.scope(patience, work).await
}

/// Waits for a response of Flink's, or of another service that may take long.
pub async fn wait<T>(answer: impl Future<Output = T>) -> T {
    let Ok(patience) = PATIENCE.try_with(Arc::clone) else { return answer.await };
    let mut answer = pin!(answer);
    if let Ok(answer) = tokio::time::timeout(GRACE, &mut answer).await {
        return answer;
    }
    patience.step_aside();
    let answer = answer.await;
    patience.come_back().await;
    answer
}

#[cfg(test)]
mod tests {
    use std::sync::{Mutex, PoisonError};

    use futures::FutureExt;
    use tokio::sync::Notify;

    use super::*;

    #[derive(Default)]
    struct Reported {
        all: Mutex<Vec<&'static str>>,
        is_aside: Notify,
    }

    impl Reported {
        fn note(&self, what: &'static str) {
            self.all.lock().unwrap_or_else(PoisonError::into_inner).push(what);
        }
    }

    impl Patience for Reported {
        fn step_aside(&self) {
            self.note("aside");
            self.is_aside.notify_one();
        }

        fn come_back(&self) -> BoxFuture<'_, ()> {
            async { self.note("back") }.boxed()
        }
    }

    #[tokio::test]
    async fn only_an_answer_that_takes_long_is_reported() {
        let told = Arc::new(Reported::default());
        let patience: Arc<dyn Patience> = Arc::<Reported>::clone(&told);
        with(Arc::clone(&patience), wait(async {})).await;
        assert!(told.all.lock().unwrap().is_empty());
        with(patience, wait(told.is_aside.notified())).await;
        assert_eq!(*told.all.lock().unwrap(), ["aside", "back"]);
        wait(async {}).await;
    }
}
