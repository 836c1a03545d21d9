//! Where a cost comes from: functions, and the chains of calls that lead to them.

use crate::framing::number;
use crate::metric::CYCLE_PARTS;
use serde::{Deserialize, Serialize};
use std::cmp::Ordering;
use std::hash::{Hash, Hasher};

/// Module name of the kernel's own functions.
pub const KERNEL: &str = "[kernel]";

/// A function that cost is attributed to.
///
/// Two are the same if their symbols, modules and sources are: several mangled names can be one
/// function of the source.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Function {
    /// Its symbol, or a name in brackets for code without one.
    pub symbol: String,
    /// The file it is from, or [`KERNEL`], or a name in brackets.
    pub module: String,
    /// What tells a local function from others of its module that have the same symbol: its source
    /// file (`list.c`), else the hash in a Rust symbol, else where it is (`0x1180`). `None` where
    /// symbols tell nothing, and of functions that other objects can see.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// Its name in the symbol table, where that is a mangled one; of several the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mangled: Option<Box<str>>,
}

impl Function {
    /// A function that needs nothing to be told from others.
    pub fn new(symbol: impl Into<String>, module: impl Into<String>) -> Function {
        Function { symbol: symbol.into(), module: module.into(), source: None, mangled: None }
    }

    /// Two functions are the same if these are.
    fn identity(&self) -> (&str, &str, Option<&str>) {
        (&self.symbol, &self.module, self.source.as_deref())
    }

    /// Its fields as one text, each behind a tab: `symbol`, `module`, `source` and `mangled`; the last
    /// ones are left out where they are absent.
    pub fn format(&self) -> String {
        let Function { symbol, module, source, mangled } = self;
        match (source, mangled) {
            (None, None) => format!("{symbol}\t{module}"),
            (Some(source), None) => format!("{symbol}\t{module}\t{source}"),
            (source, Some(mangled)) => {
                format!("{symbol}\t{module}\t{}\t{mangled}", source.as_deref().unwrap_or_default())
            }
        }
    }

    /// Reads what [`format`](Self::format) wrote; `None` of a text without a module.
    pub fn parse(text: &str) -> Option<Function> {
        let (symbol, rest) = text.split_once('\t')?;
        let mut fields = rest.splitn(3, '\t');
        let module = fields.next()?;
        let mut optional = || fields.next().filter(|field| !field.is_empty());
        let source = optional().map(str::to_string);
        let mangled = optional().map(Box::from);
        Some(Function { source, mangled, ..Function::new(symbol, module) })
    }
}

impl PartialEq for Function {
    fn eq(&self, other: &Function) -> bool {
        self.identity() == other.identity()
    }
}

impl Eq for Function {}

impl Hash for Function {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.identity().hash(state);
    }
}

impl Ord for Function {
    fn cmp(&self, other: &Function) -> Ordering {
        self.identity().cmp(&other.identity())
    }
}

impl PartialOrd for Function {
    fn partial_cmp(&self, other: &Function) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// What is known of a file with functions beside its path.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Module {
    /// Its path, as functions have it.
    pub path: String,
    /// The name that other files link it by (`DT_SONAME`).
    pub soname: Option<String>,
    /// Whether it is the program that was to be measured.
    pub program: bool,
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

/// Modelled cycles of one context: a number for each of [`CYCLE_PARTS`](crate::metric::CYCLE_PARTS),
/// and last how many of the memory cycles were waits for the last-level cache or memory.
pub type ContextCycles = [u64; CYCLE_PARTS.len() + 1];

/// Cost of one region by calling context, in units of one metric.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Profile {
    /// The functions.
    pub functions: Vec<Function>,
    /// The tree, parents before children.
    pub contexts: Vec<Context>,
    /// The modelled cycles of each context; empty where cycles were not modelled.
    pub cycles: Vec<ContextCycles>,
    /// What is known of the functions' files, as far as it says more than their paths.
    pub modules: Vec<Module>,
}

impl Profile {
    /// The cost of all contexts together.
    pub fn total(&self) -> u64 {
        self.contexts.iter().map(|context| context.cost).sum()
    }

    /// Writes the profile as lines: `m ROLE SONAME<tab>PATH` where the role of the program is `p`
    /// and that of another file `-`, `f SYMBOL<tab>MODULE` (and `<tab>SOURCE<tab>MANGLED` as far as there are any), and
    /// `c PARENT FUNCTION CALLS COST` where a parent of `-` is none. Behind each context stand its modelled
    /// cycles, `y` and six numbers, if cycles were modelled.
    pub fn write_lines(&self, lines: &mut Vec<String>) {
        for Module { path, soname, program } in &self.modules {
            let role = if *program { 'p' } else { '-' };
            lines.push(format!("m {role} {}\t{path}", soname.as_deref().unwrap_or_default()));
        }
        for function in &self.functions {
            lines.push(format!("f {}", function.format()));
        }
        for (place, Context { parent, function, calls, cost }) in self.contexts.iter().enumerate() {
            let parent = parent.map_or("-".to_string(), |parent| parent.to_string());
            lines.push(format!("c {parent} {function} {calls} {cost}"));
            if let Some(cycles) = self.cycles.get(place) {
                lines.push(format!("y {}", cycles.map(|part| part.to_string()).join(" ")));
            }
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
                self.functions.push(Function::parse(rest).ok_or("a function has no module")?);
            }
            "m" => {
                let (facts, path) = rest.split_once('\t').ok_or("a module has no path")?;
                let (role, soname) = facts.split_once(' ').ok_or("a module has no role")?;
                let program = match role {
                    "p" => true,
                    "-" => false,
                    _ => return Err("no such role of a module"),
                };
                let soname = Some(soname.to_string()).filter(|soname| !soname.is_empty());
                self.modules.push(Module { path: path.into(), soname, program });
            }
            "c" => {
                let fields: Vec<&str> = rest.split(' ').collect();
                let [parent, function, calls, cost] = fields[..] else {
                    return Err("a context has four fields");
                };
                if !self.cycles.is_empty() && self.cycles.len() != self.contexts.len() {
                    return Err("a context has no cycles");
                }
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
            "y" => {
                if self.cycles.len() + 1 != self.contexts.len() {
                    return Err("cycles without a context");
                }
                let parts = rest.split(' ').map(number).collect::<Result<Vec<u64>, _>>()?;
                let parts = parts.try_into().map_err(|_| "a context has six figures of cycles")?;
                self.cycles.push(parts);
            }
            _ => return Err("not a line of a profile"),
        }
        Ok(())
    }
}
