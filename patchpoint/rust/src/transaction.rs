//! Several changes at once, all or none.

use crate::abi::{self, RawKey, RawTransaction};
use crate::error::Error;
use crate::key::{Branch, Call, Switch, Value};
use crate::signature::Signature;
use crate::word::Word;

/// Changes of any number of keys, of Rust and of C, that are made together or not at all.
///
/// Nothing happens and nothing is held before [`commit`](Self::commit). The last change of a key
/// counts.
///
/// ```
/// use patchpoint::{Branch, Transaction, Value};
///
/// static LIMIT: Value<u32> = Value::new(c"limit", 100);
/// static STRICT: Branch = Branch::new(c"strict", false);
///
/// let mut change = Transaction::new();
/// change.set_value(&LIMIT, 50).set_branch(&STRICT, true);
/// assert_eq!(patchpoint::value!(LIMIT), 100);
/// change.commit()?;
/// assert_eq!(patchpoint::value!(LIMIT), 50);
/// assert!(patchpoint::unlikely!(STRICT));
/// # Ok::<(), patchpoint::Error>(())
/// ```
#[derive(Debug)]
#[must_use = "a transaction changes nothing before it is committed"]
pub struct Transaction(RawTransaction);

// SAFETY: a list of changes in memory of its own, which no thread is tied to.
unsafe impl Send for Transaction {}

impl Default for Transaction {
    fn default() -> Self {
        Self::new()
    }
}

impl Transaction {
    /// Makes a transaction without changes.
    pub fn new() -> Self {
        Transaction(RawTransaction::begun())
    }

    /// Adds another function for a key's sites.
    pub fn set_call<F: Signature>(&mut self, key: &'static Call<F>, function: F) -> &mut Self {
        self.add(&key.raw, function.to_slot() as u64)
    }

    /// Adds the removal of a key's operation; the key's sites do what the key's
    /// [`Missing`](crate::Missing) says.
    pub fn remove_call<F: Signature>(&mut self, key: &'static Call<F>) -> &mut Self {
        self.add(&key.raw, 0)
    }

    /// Adds another value for a key's sites.
    pub fn set_value<T: Word>(&mut self, key: &'static Value<T>, value: T) -> &mut Self {
        self.add(&key.raw, value.to_word())
    }

    /// Adds another answer for a key's sites.
    pub fn set_branch(&mut self, key: &'static Branch, truth: bool) -> &mut Self {
        self.add(&key.raw, truth.into())
    }

    /// Adds another way for a key's sites.
    pub fn set_switch<const WAYS: usize>(
        &mut self,
        key: &'static Switch<WAYS>,
        way: usize,
    ) -> &mut Self {
        self.add(&key.raw, way as u64)
    }

    fn add(&mut self, key: &'static RawKey, value: u64) -> &mut Self {
        // SAFETY: a begun transaction, and a key that lives as long as the program; the callers'
        // types ensure the kind of the value. The library keeps an error, and the commit returns it.
        unsafe { abi::patchpoint_txn_set(&mut self.0, key, value) };
        self
    }

    /// Makes all changes, or none.
    ///
    /// After a return without an error, every thread executes the new code at every site. The commit
    /// is a full memory barrier, and blocks signals in this thread meanwhile.
    ///
    /// # Errors
    /// [`Error`]; every site and key is as it was before.
    pub fn commit(mut self) -> Result<(), Error> {
        // SAFETY: a begun transaction. Committing ends it; ending it again, as dropping does, is
        // without effect.
        Error::check(unsafe { abi::patchpoint_txn_commit(&mut self.0) }).map(drop)
    }
}

impl Drop for Transaction {
    fn drop(&mut self) {
        // SAFETY: a begun transaction, or one that is over and holds nothing.
        unsafe { abi::patchpoint_txn_abort(&mut self.0) };
    }
}
