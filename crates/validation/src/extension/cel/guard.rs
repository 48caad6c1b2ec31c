//! Confines panics of the language's crate, and its use of the stack, to the rule that caused them.
//!
//! A panic anywhere else ends the process (see `cli::run`): half an operator is worse than one that Kubernetes
//! restarts. In a rule, it only means that the rule has no answer.

use std::cell::Cell;
use std::thread;

/// Stack size for the parser and the evaluator, which recurse for each level of an expression: about thirty times what
/// the deepest allowed expression needs.
const STACK_BYTES: usize = 64 << 20;

thread_local! {
    static IS_GUARDED: Cell<bool> = const { Cell::new(false) };
}

/// Returns true if a panic on this thread belongs to a rule.
pub fn is_guarded() -> bool {
    IS_GUARDED.get()
}

/// Returns the result of the work, which runs in a separate thread that ends before this returns; `None` if it panics,
/// or no thread can be started.
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
