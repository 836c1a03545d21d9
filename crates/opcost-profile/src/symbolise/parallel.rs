//! Work on many files, on several CPUs.

use std::cmp::Reverse;
use std::sync::Mutex;
use std::thread;

/// Threads at most, since each holds the symbols of a file.
const THREADS_MAX: usize = 4;

/// Does `work` on every item, the one of the greatest weight first; the results are in the order of the
/// items.
pub(super) fn map<T: Sync, R: Send>(
    items: &[T],
    weight: impl Fn(&T) -> usize,
    work: impl Fn(&T) -> R + Sync,
) -> Vec<R> {
    let mut order: Vec<usize> = (0..items.len()).collect();
    order.sort_by_key(|index| Reverse(weight(&items[*index])));
    let queue = Mutex::new(order.into_iter());
    let next = || queue.lock().ok()?.next();
    let take = || {
        let mut done = Vec::new();
        while let Some(index) = next() {
            done.push((index, work(&items[index])));
        }
        done
    };
    let cpus = thread::available_parallelism().map_or(1, usize::from);
    let threads = cpus.min(THREADS_MAX).min(items.len());
    let mut done = thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(take)).collect();
        let mut done = take();
        for other in others {
            // A panic of a thread is this thread's.
            done.extend(other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        }
        done
    });
    done.sort_unstable_by_key(|(index, _)| *index);
    done.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::map;

    #[test]
    fn results_are_in_the_order_of_the_items() {
        let items: Vec<usize> = (0..1000).collect();
        let squares: Vec<usize> = items.iter().map(|item| item * item).collect();
        assert_eq!(map(&items, |item| item % 7, |item| item * item), squares);
        assert!(map(&[], |_: &u8| 0, |_| 0).is_empty());
    }

    #[test]
    #[should_panic(expected = "item 7")]
    fn a_panic_is_passed_on() {
        let items: Vec<usize> = (0..100).collect();
        map(&items, |_| 0, |item| assert!(*item != 7, "item 7"));
    }
}
