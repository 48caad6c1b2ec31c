//! Keeps a panic of the language's crate, and its need for stack, to the rule that met it.
//!
//! A panic anywhere else ends the process (see `cli::run`): half an operator is worse than one that
//! Kubernetes starts again. In a rule it is only a rule that has no answer.

use std::cell::Cell;
use std::thread;

/// Stack for the parser and the evaluator, which call themselves for each level of an expression:
/// some thirty times what the deepest expression that is allowed takes.
const STACK_BYTES: usize = 64 << 20;

thread_local! {
    static IS_GUARDED: Cell<bool> = const { Cell::new(false) };
}

/// True if a panic on this thread is one of a rule.
pub fn is_guarded() -> bool {
    IS_GUARDED.get()
}

/// Returns the work's answer, from its own thread that is over when this returns; nothing if it
/// panics, or there can be no thread.
pub(super) fn guarded<T: Send>(work: impl FnOnce() -> T + Send) -> Option<T> {
    let guarded = || {
        IS_GUARDED.set(true);
        work()
    };
    thread::scope(|scope| {
        let thread = thread::Builder::new().name("rule".to_owned()).stack_size(STACK_BYTES);
        thread.spawn_scoped(scope, guarded).ok()?.join().ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_no_answer() {
        assert_eq!(guarded(|| 1 + usize::from(is_guarded())), Some(2));
        assert_eq!(guarded(|| -> usize { panic!("of a rule") }), None);
        assert!(!is_guarded());
    }
}
