//! Maps with keys that files choose: names, addresses, numbers of processes.
//!
//! Their hash has a random key, drawn for each run. With a fixed one, a file could choose keys that all meet in one place of the
//! table, and each look-up would pass all of them. foldhash draws such a key and is nearly as fast as a fixed hash.

/// A map with a random key of its hash.
pub type KeyedMap<K, V> = foldhash::HashMap<K, V>;
/// A set with a random key of its hash.
pub type KeyedSet<T> = foldhash::HashSet<T>;

#[cfg(test)]
mod tests {
    use super::*;
    use std::hash::BuildHasher;

    #[test]
    fn no_file_can_know_where_its_keys_meet() {
        let [one, two] = [(); 2].map(|()| KeyedMap::<&str, ()>::default());
        let keys = ["main", "a", "b"];
        assert!(keys.iter().any(|key| one.hasher().hash_one(key) != two.hasher().hash_one(key)));
        let [one, two] = [(); 2].map(|()| KeyedSet::<u64>::default());
        assert!((0..3).any(|key: u64| one.hasher().hash_one(key) != two.hasher().hash_one(key)));
    }
}
