//! Maps over items on several CPUs.

use std::sync::Mutex;
use std::thread;

/// Calls `work` on every item; the results are in the order of the items.
///
/// At most `threads_max` threads, the caller's among them, begin items in their order.
///
/// # Panics
/// Panics if `work` does.
pub fn map<T: Send, R: Send>(
    items: Vec<T>,
    threads_max: usize,
    work: impl Fn(T) -> R + Sync,
) -> Vec<R> {
    let threads_max = threads_max.min(items.len());
    // Asking for the number of CPUs reads files of control groups, which takes longer than one small item.
    let threads = match threads_max {
        0 | 1 => 1,
        _ => thread::available_parallelism().map_or(1, usize::from).min(threads_max),
    };
    if threads < 2 {
        return items.into_iter().map(work).collect();
    }
    // An idle thread takes the next item, since items take different times.
    let queue = Mutex::new(items.into_iter().enumerate());
    let next = || queue.lock().ok()?.next();
    let take = || {
        let mut done = Vec::new();
        while let Some((index, item)) = next() {
            done.push((index, work(item)));
        }
        done
    };
    let mut done = thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(take)).collect();
        let mut done = take();
        for other in others {
            // The caller's thread passes the panic of another thread on.
            done.extend(other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        }
        done
    });
    done.sort_by_key(|(index, _)| *index);
    done.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::map;

    #[test]
    fn results_are_in_the_order_of_the_items() {
        let items: Vec<u64> = (0..1000).collect();
        let squares: Vec<u64> = items.iter().map(|item| item * item).collect();
        assert_eq!(map(items.clone(), 4, |item| item * item), squares);
        assert_eq!(map(items, 1, |item| item * item), squares);
        assert_eq!(map(Vec::<u64>::new(), 4, |item| item), Vec::<u64>::new());
    }

    #[test]
    #[should_panic(expected = "item 7")]
    fn a_panic_is_passed_on() {
        map((0..100).collect(), 4, |item: u32| assert!(item != 7, "item 7"));
    }
}
