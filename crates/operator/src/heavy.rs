//! Work on what others write, such as the graph of a job or the stored state of its autoscaler, which may take a
//! second: beside the threads of the loop, so that its Lease, its probes and the passes of others never wait for it.

use tokio::sync::Semaphore;

/// Maximum number at the same time. Others wait in the order in which they come.
static TURNS: Semaphore = Semaphore::const_new(2);

/// Runs the work on a blocking thread.
///
/// # Errors
/// If the process ends meanwhile.
pub async fn run<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, String> {
    // It goes along, because dropping this future does not end the work.
    let turn = TURNS.acquire().await;
    let done = tokio::task::spawn_blocking(move || {
        let done = work();
        drop(turn);
        done
    });
    done.await.map_err(|error| format!("the work was not finished: {error}"))
}

/// Runs the work on a value that goes along, and comes back with it.
///
/// # Errors
/// If the process ends meanwhile. The value is then lost, and a default one is in its place.
pub async fn lent<V, T>(
    value: &mut V,
    work: impl FnOnce(&V) -> T + Send + 'static,
) -> Result<T, String>
where
    V: Default + Send + 'static,
    T: Send + 'static,
{
    let lent = std::mem::take(value);
    let (done, returned) = run(move || (work(&lent), lent)).await?;
    *value = returned;
    Ok(done)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    /// On a single thread: were the work done there, nothing could end it.
    #[tokio::test]
    async fn work_that_takes_long_holds_up_nothing_else() {
        let (resume, resumed) = mpsc::channel::<()>();
        let (more, waits) = (resume.clone(), Duration::from_mins(1));
        let first = tokio::spawn(run(move || resumed.recv_timeout(waits).is_ok()));
        let second = tokio::spawn(run(|| true));
        assert_eq!(second.await.unwrap(), Ok(true));
        assert!(!first.is_finished());
        more.send(()).unwrap();
        assert_eq!(first.await.unwrap(), Ok(true));
    }
}
