use super::*;

const INTERVAL: Duration = Duration::from_hours(1);

fn at(minute: i64) -> Timestamp {
    Timestamp::from_second(1_700_000_000 + minute * 60).unwrap()
}

struct Job(Delayed);

impl Job {
    /// The result of a recommendation at a minute: the parallelism and the minute of the one that is used.
    fn recommend(&mut self, minute: i64, parallelism: u32) -> Option<u32> {
        let recommended = Recommended { at: at(minute), parallelism, is_outside: minute % 2 == 0 };
        match self.0.recommend(&"a".into(), recommended, INTERVAL) {
            Answer::Until(until) => {
                assert!(until > at(minute));
                None
            }
            Answer::Now(chosen) => {
                let of_minute = (chosen.at.as_second() - at(0).as_second()) / 60;
                assert_eq!(chosen.is_outside, of_minute % 2 == 0);
                Some(chosen.parallelism)
            }
        }
    }

    fn minutes(&self) -> Vec<(i64, u32)> {
        let queue = &self.0.0[&"a".into()].recommended;
        queue.iter().map(|one| ((one.at - at(0)).get_seconds() / 60, one.parallelism)).collect()
    }
}

#[test]
fn the_highest_of_the_interval_is_taken_at_its_end() {
    let mut job = Job(Delayed::default());
    assert_eq!(job.recommend(0, 3), None);
    assert_eq!(job.recommend(20, 7), None);
    assert_eq!(job.recommend(40, 4), None);
    assert_eq!(job.recommend(59, 2), None);
    assert_eq!(job.minutes(), [(20, 7), (40, 4), (59, 2)]);
    assert_eq!(job.recommend(60, 5), Some(7));
    assert_eq!(job.minutes(), [(20, 7), (60, 5)]);
}

#[test]
fn the_window_moves_and_the_start_does_not() {
    let mut job = Job(Delayed::default());
    job.recommend(0, 8);
    assert_eq!(job.recommend(60, 3), Some(8));
    assert_eq!(job.recommend(61, 3), Some(3));
    assert_eq!(job.recommend(130, 2), Some(2));
    assert_eq!(job.0.0[&"a".into()].since, at(0));
}

#[test]
fn what_is_cancelled_waits_anew() {
    let mut job = Job(Delayed::default());
    job.recommend(0, 8);
    job.0.cancel(&"a".into());
    assert_eq!(job.recommend(60, 3), None);
    job.0.cancel_all();
    assert_eq!(job.0, Delayed::default());
}

#[test]
fn vertices_wait_each_for_itself() {
    let mut delayed = Delayed::default();
    let one = Recommended { at: at(0), parallelism: 4, is_outside: true };
    delayed.recommend(&"a".into(), one, INTERVAL);
    let later = Recommended { at: at(90), ..one };
    assert_eq!(delayed.recommend(&"b".into(), later, INTERVAL), Answer::Until(at(150)));
    assert_eq!(delayed.recommend(&"a".into(), later, INTERVAL), Answer::Now(later));
}

/// A queue that was stored before the clock went back is harmless: no panic, and no result from the future.
#[test]
fn an_empty_queue_answers_with_what_was_asked() {
    let waiting = Waiting { since: at(0), recommended: VecDeque::new() };
    let mut delayed = Delayed([("a".into(), waiting)].into());
    let now = Recommended { at: at(100), parallelism: 4, is_outside: true };
    assert_eq!(delayed.recommend(&"a".into(), now, INTERVAL), Answer::Now(now));
}
