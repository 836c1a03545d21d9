//! A shared object with keys and sites of its own, which a test loads.

use patchpoint::{Branch, Transaction, Value, call, unlikely, value};

static NUMBER: Value<i32> = Value::new(c"plugin_number", 4);
static FLAG: Branch = Branch::new(c"plugin_flag", false);

patchpoint::variants! {
    /// 100 if the flag is set.
    static HUNDRED: fn() -> i32 = |FLAG: bool| {
        if FLAG { 100 } else { 0 }
    }
}

/// Combines the results of the sites in one number.
#[unsafe(no_mangle)]
pub extern "C" fn plugin_reads() -> i32 {
    let hundred = if unlikely!(FLAG) { 100 } else { 0 };
    if hundred == call!(HUNDRED) { value!(NUMBER) + hundred } else { -1 }
}

/// Changes both keys; returns the number of patched sites, or -1.
#[unsafe(no_mangle)]
pub extern "C" fn plugin_changes() -> i32 {
    let mut change = Transaction::new();
    change.set_value(&NUMBER, 7).set_branch(&FLAG, true);
    match (change.commit(), patchpoint::sites()) {
        (Ok(()), Ok(sites)) => sites.iter().filter(|site| site.state != "data").count() as i32,
        _ => -1,
    }
}
