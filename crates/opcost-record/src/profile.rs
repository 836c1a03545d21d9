//! Costs by functions, and by the chains of calls that lead to them.

use crate::metric::CYCLE_PARTS;
use crate::steps::Steps;
use serde::{Deserialize, Serialize};
use std::cmp::Ordering;
use std::hash::{Hash, Hasher};

/// Module name of the kernel's own functions.
pub const KERNEL: &str = "[kernel]";

/// A function to which cost is attributed.
///
/// Functions are equal if symbol, module and source are equal: one function of the source may have several mangled
/// names.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Function {
    /// The function's symbol, or a name in brackets for code without one.
    pub symbol: String,
    /// The function's file, or [`KERNEL`], or a name in brackets.
    pub module: String,
    /// Tells a local function from others with the same symbol in its module: its source file (`list.c`), else the hash
    /// in a Rust symbol, else its address (`0x1180`). `None` if symbols tell nothing, and for functions that other
    /// objects can see.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// The name in the symbol table, if it is mangled; of several names the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mangled: Option<Box<str>>,
}

impl Function {
    /// Makes a function with symbol and module only.
    pub fn new(symbol: impl Into<String>, module: impl Into<String>) -> Function {
        Function { symbol: symbol.into(), module: module.into(), source: None, mangled: None }
    }

    /// Returns the fields that decide whether two functions are equal.
    fn identity(&self) -> (&str, &str, Option<&str>) {
        (&self.symbol, &self.module, self.source.as_deref())
    }

    /// Writes the fields as one text, separated by tabs: `symbol`, `module`, `source` and `mangled`; fields at the end
    /// are left out if they are absent.
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

    /// Reads a text of [`format`](Self::format); `None` if it has no module.
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

/// Facts about a file with functions beside its path.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct Module {
    /// The path, as in functions.
    pub path: String,
    /// The name by which other files link the file (`DT_SONAME`).
    pub soname: Option<String>,
    /// Whether the file is the program to be measured.
    pub program: bool,
}

/// A node of the calling context tree: a function, reached through its callers.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Context {
    /// The caller's node, always an earlier one; `None` if no caller is known.
    pub parent: Option<u32>,
    /// Index into [`Profile::functions`].
    pub function: u32,
    /// The number of calls from the parent.
    pub calls: u64,
    /// The cost of the function's own instructions in this context, without callees.
    pub cost: u64,
}

/// Modelled cycles of a context: a number for each of [`CYCLE_PARTS`], then the memory
/// cycles that waited for the last-level cache or memory.
pub type ContextCycles = [u64; CYCLE_PARTS.len() + 1];

/// More instructions than a run's addresses may be ([`Profile::addresses`]).
pub const ADDRESSES_MAX: usize = 1 << 21;

/// The cost of one instruction.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct AddressCost {
    /// Index into the functions beside it: the function that the profile charges. If control falls from one function into the next,
    /// an address has a row for each.
    pub function: u32,
    /// The virtual address that the linker gave the instruction in its function's file, the kernel's link address, or the distance
    /// from the first function of a loadable kernel module. Code without a file has the address at which it ran.
    pub address: u64,
    /// The number of times that the instruction began; 0 if that is not known. A repeated string instruction begins once per iteration.
    pub executions: u64,
    /// The cost in units of the profile's metric: each instruction that finished, or the weights of samples.
    pub cost: u64,
}

impl AddressCost {
    /// The order of rows: by function, then by address; no two rows are at the same place.
    pub fn place(&self) -> (u32, u64) {
        (self.function, self.address)
    }
}

/// How often an instruction sent control to one target: a conditional branch where it is taken, and indirect calls and jumps. A
/// conditional branch is not taken in its other executions.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Transfer {
    /// The instruction's function and address, as in [`AddressCost`].
    pub from: (u32, u64),
    /// The target's function and address.
    pub to: (u32, u64),
    /// The number of times.
    pub times: u64,
}

/// The cost of several runs, or of samples, by instruction.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct AddressCosts {
    /// The functions.
    pub functions: Vec<Function>,
    /// The instructions in the order of [`AddressCost::place`].
    pub costs: Vec<AddressCost>,
    /// Where branches and indirect calls went, ordered by instruction and target; empty for samples.
    pub transfers: Vec<Transfer>,
}

impl AddressCosts {
    /// Returns the instructions of a function by address; empty if it has none.
    pub fn of(&self, function: &Function) -> &[AddressCost] {
        let Some(number) = self.functions.iter().position(|known| known == function) else {
            return &[];
        };
        let behind =
            |limit: usize| self.costs.partition_point(|cost| (cost.function as usize) < limit);
        &self.costs[behind(number)..behind(number + 1)]
    }
}

/// The cost of a region by calling context, in units of one metric.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct Profile {
    /// The functions.
    #[serde(with = "functions")]
    pub functions: Vec<Function>,
    /// The tree, parents before children.
    pub contexts: Vec<Context>,
    /// The modelled cycles of each context; empty where cycles were not modelled.
    pub cycles: Vec<ContextCycles>,
    /// Facts about the functions' files, for files with more than a path.
    pub modules: Vec<Module>,
    /// The cost by instruction, in the order of [`AddressCost::place`]; empty where instructions were not counted apart. The costs
    /// of a function's instructions sum to the costs of its contexts.
    pub addresses: Vec<AddressCost>,
    /// Where branches and indirect calls among these instructions went, ordered by instruction and target.
    pub transfers: Vec<Transfer>,
    /// One operation step by step, if that was asked for.
    pub steps: Option<Box<Steps>>,
}

impl Profile {
    /// Returns the sum of all contexts' costs.
    pub fn total(&self) -> u64 {
        self.contexts.iter().map(|context| context.cost).sum()
    }

    /// Checks that numbers of functions and contexts are known, and that rows are in their order.
    ///
    /// # Errors
    /// The contradiction, in a few words.
    pub fn check(&self) -> Result<(), &'static str> {
        let known = |function: u32| match (function as usize) < self.functions.len() {
            true => Ok(()),
            false => Err("no such function"),
        };
        if !self.cycles.is_empty() && self.cycles.len() != self.contexts.len() {
            return Err("a context has no cycles");
        }
        for (place, context) in self.contexts.iter().enumerate() {
            known(context.function)?;
            if context.parent.is_some_and(|parent| parent as usize >= place) {
                return Err("a parent comes after its child");
            }
        }
        if self.addresses.len().max(self.transfers.len()) > ADDRESSES_MAX {
            return Err("too many instructions or jumps");
        }
        self.addresses.iter().try_for_each(|cost| known(cost.function))?;
        if !self.addresses.is_sorted_by(|one, next| one.place() < next.place()) {
            return Err("instructions must ascend");
        }
        let places = |transfer: &Transfer| (transfer.from, transfer.to);
        for transfer in &self.transfers {
            known(transfer.from.0).and(known(transfer.to.0))?;
        }
        if !self.transfers.is_sorted_by(|one, next| places(one) < places(next)) {
            return Err("jumps must ascend");
        }
        self.steps.iter().try_for_each(|steps| steps.check(self.functions.len()))
    }

    /// Writes the profile as lines: `m ROLE SONAME<tab>PATH` with the role `p` for the program and `-` for other files;
    /// `f SYMBOL<tab>MODULE`, with `<tab>SOURCE<tab>MANGLED` if it has them; and `c PARENT FUNCTION CALLS COST`, with
    /// the parent `-` if there is none. If cycles were modelled, a line `y` with six numbers follows each context. Instructions
    /// follow: `a FUNCTION ADDRESS EXECUTIONS COST`, addresses hexadecimal; then `j FUNCTION ADDRESS FUNCTION ADDRESS TIMES` with
    /// instruction and target; then the lines of [`Steps`], with a capital letter.
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
        for AddressCost { function, address, executions, cost } in &self.addresses {
            lines.push(format!("a {function} {address:x} {executions} {cost}"));
        }
        for Transfer { from, to, times } in &self.transfers {
            lines.push(format!("j {} {:x} {} {:x} {times}", from.0, from.1, to.0, to.1));
        }
        self.steps.iter().for_each(|steps| steps.write_lines(lines));
    }

    /// Reads a line that [`write_lines`](Self::write_lines) wrote; [`check`](Self::check) is for all lines together.
    ///
    /// # Errors
    /// The line's fault, in a few words.
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
                let parent = match parent {
                    "-" => None,
                    parent => Some(small(parent)?),
                };
                let (function, calls, cost) = (small(function)?, number(calls)?, number(cost)?);
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
            "a" => {
                let fields: Vec<&str> = rest.split(' ').collect();
                let [function, address, executions, cost] = fields[..] else {
                    return Err("an instruction has four fields");
                };
                self.addresses.push(AddressCost {
                    function: small(function)?,
                    address: hexadecimal(address)?,
                    executions: number(executions)?,
                    cost: number(cost)?,
                });
            }
            "j" => {
                let fields: Vec<&str> = rest.split(' ').collect();
                let [function, address, to_function, to_address, times] = fields[..] else {
                    return Err("a jump has five fields");
                };
                self.transfers.push(Transfer {
                    from: (small(function)?, hexadecimal(address)?),
                    to: (small(to_function)?, hexadecimal(to_address)?),
                    times: number(times)?,
                });
            }
            "S" => self.steps.get_or_insert_default().read_line(word, rest)?,
            "B" | "C" => {
                self.steps.as_mut().ok_or("steps without a beginning")?.read_line(word, rest)?
            }
            _ => return Err("not a line of a profile"),
        }
        Ok(())
    }
}

/// Parses a number of a line.
pub(crate) fn number(field: &str) -> Result<u64, &'static str> {
    field.parse().map_err(|_| "not a number")
}

/// Parses the number of a function or context.
pub(crate) fn small(field: &str) -> Result<u32, &'static str> {
    field.parse().map_err(|_| "not a number")
}

/// Parses a hexadecimal number of a line.
pub(crate) fn hexadecimal(field: &str) -> Result<u64, &'static str> {
    u64::from_str_radix(field, 16).map_err(|_| "not hexadecimal")
}

/// Functions in messages. In JSON, a function leaves out the fields that are absent, and a message cannot.
pub(crate) mod functions {
    use super::Function;
    use serde::{Deserialize, Deserializer, Serializer};

    type Fields = (String, String, Option<String>, Option<Box<str>>);

    pub(crate) fn serialize<S: Serializer>(
        functions: &[Function],
        to: S,
    ) -> Result<S::Ok, S::Error> {
        to.collect_seq(
            functions.iter().map(|Function { symbol, module, source, mangled }| {
                (symbol, module, source, mangled)
            }),
        )
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Vec<Function>, D::Error> {
        let all = Vec::<Fields>::deserialize(from)?.into_iter();
        Ok(all
            .map(|(symbol, module, source, mangled)| Function { symbol, module, source, mangled })
            .collect())
    }
}
