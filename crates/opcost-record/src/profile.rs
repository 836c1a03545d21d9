//! Where a cost comes from: functions, and the chains of calls that lead to them.

use serde::{Deserialize, Serialize};

/// Module name of the kernel's own functions.
pub const KERNEL: &str = "[kernel]";

/// A function that cost is attributed to.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
pub struct Function {
    /// Its symbol, or a name in brackets for code without one.
    pub symbol: String,
    /// The file it is from, or [`KERNEL`], or a name in brackets.
    pub module: String,
}

/// One node of the calling context tree: a function, reached through its parents.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Context {
    /// The caller's node, always an earlier one; `None` where nothing is known to have called it.
    pub parent: Option<u32>,
    /// Index into [`Profile::functions`].
    pub function: u32,
    /// Times it was entered from the parent.
    pub calls: u64,
    /// Cost of its own instructions in this context, callees left out.
    pub cost: u64,
}

/// Cost of one region by calling context, in units of one metric.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Profile {
    /// The functions.
    pub functions: Vec<Function>,
    /// The tree, parents before children.
    pub contexts: Vec<Context>,
}

impl Profile {
    /// The cost of all contexts together.
    pub fn total(&self) -> u64 {
        self.contexts.iter().map(|context| context.cost).sum()
    }

    /// Writes the profile as lines: `f SYMBOL<tab>MODULE` and `c PARENT FUNCTION CALLS COST`, where
    /// a parent of `-` is none.
    pub fn write_lines(&self, lines: &mut Vec<String>) {
        for Function { symbol, module } in &self.functions {
            lines.push(format!("f {symbol}\t{module}"));
        }
        for Context { parent, function, calls, cost } in &self.contexts {
            let parent = parent.map_or("-".to_string(), |parent| parent.to_string());
            lines.push(format!("c {parent} {function} {calls} {cost}"));
        }
    }

    /// Takes one line of [`write_lines`](Self::write_lines).
    ///
    /// # Errors
    /// What is wrong with the line, in a few words.
    pub fn read_line(&mut self, line: &str) -> Result<(), &'static str> {
        let (word, rest) = line.split_once(' ').ok_or("not a line of a profile")?;
        match word {
            "f" => {
                let (symbol, module) = rest.split_once('\t').ok_or("a function has no module")?;
                self.functions.push(Function { symbol: symbol.into(), module: module.into() });
            }
            "c" => {
                let fields: Vec<&str> = rest.split(' ').collect();
                let [parent, function, calls, cost] = fields[..] else {
                    return Err("a context has four fields");
                };
                let number = |text: &str| text.parse::<u64>().map_err(|_| "not a number");
                let parent = match parent {
                    "-" => None,
                    parent => Some(u32::try_from(number(parent)?).map_err(|_| "no such parent")?),
                };
                if parent.is_some_and(|parent| parent as usize >= self.contexts.len()) {
                    return Err("a parent comes after its child");
                }
                let function = u32::try_from(number(function)?).map_err(|_| "no such function")?;
                if function as usize >= self.functions.len() {
                    return Err("no such function");
                }
                let (calls, cost) = (number(calls)?, number(cost)?);
                self.contexts.push(Context { parent, function, calls, cost });
            }
            _ => return Err("not a line of a profile"),
        }
        Ok(())
    }
}
