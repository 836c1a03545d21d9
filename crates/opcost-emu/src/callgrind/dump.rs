//! From counts to `callgrind.out`.

use super::code::{Block, Code};
use super::files::SourceNames;
use super::thread::{Costs, EVENTS, Thread};
use opcost_callgrind::settings::Settings;
use opcost_callgrind::write::{Call, CodePosition, Dump, Function, Style};
use std::collections::{BTreeSet, HashMap};

/// The events, in the order of costs.
const NAMES: [&str; EVENTS] = ["Ir", "Dr", "Dw", "I1mr", "D1mr", "D1mw", "ILmr", "DLmr", "DLmw"];

/// The instructions of a block in a context that cost something, and the costs of skipped functions there.
struct Own {
    block: &'static Block,
    context: u32,
    costs: Vec<Costs>,
}

/// Calls between two contexts.
struct Edge {
    from: (&'static Block, u32),
    to: u32,
    calls: u64,
    costs: Costs,
}

/// The counts of one thread, or of all.
#[derive(Default)]
pub(super) struct Counts {
    own: Vec<Own>,
    edges: Vec<Edge>,
    /// How many blocks were executed.
    pub(super) blocks: u64,
}

impl Counts {
    /// Returns the counts of a thread.
    pub(super) fn of(thread: &mut Thread) -> Counts {
        thread.settle();
        let mut counts = Counts::default();
        for cell in &thread.cells {
            let instructions = cell.block.instructions();
            let mut costs = vec![[0; EVENTS]; instructions];
            let mut times = cell.count;
            for (index, costs) in costs.iter_mut().enumerate() {
                for (_, part) in cell.parts.iter().filter(|(from, _)| *from == index) {
                    times = times.wrapping_add_signed(*part);
                }
                costs[0] = times;
                if let Some(row) = thread.row(cell, index) {
                    costs[1..].copy_from_slice(row);
                }
            }
            costs[instructions - 1][0] += cell.skipped;
            counts.blocks += cell.count;
            if costs.iter().any(|costs| *costs != [0; EVENTS]) {
                counts.own.push(Own { block: cell.block, context: cell.context, costs });
            }
        }
        for edge in thread.edges.iter().filter(|edge| edge.calls > 0 || edge.costs != [0; EVENTS]) {
            let from = &thread.cells[edge.from as usize];
            let from = (from.block, from.context);
            counts.edges.push(Edge { from, to: edge.to, calls: edge.calls, costs: edge.costs });
        }
        counts
    }

    /// Adds the counts of another thread.
    pub(super) fn add(&mut self, other: Counts) {
        self.own.extend(other.own);
        self.edges.extend(other.edges);
        self.blocks += other.blocks;
    }

    /// Returns the file's contents; its head is the caller's.
    pub(super) fn dump(&self, code: &mut Code, settings: &Settings, head: Dump) -> Dump {
        let events = if settings.cache_sim { EVENTS } else { 1 };
        let lines = self.lines(code, settings);
        let mut dump =
            Dump { events: NAMES[..events].to_vec(), files: lines.names.names.clone(), ..head };
        let mut numbers: HashMap<u32, usize> = HashMap::new();
        let mut number = |context: u32, functions: &mut Vec<Function>| {
            *numbers.entry(context).or_insert_with(|| {
                let function = &code.files.functions[(context / settings.separate_recs) as usize];
                let depth = context % settings.separate_recs;
                let name = match depth {
                    0 => function.name.clone(),
                    depth => format!("{}'{}", function.name, depth + 1),
                };
                let object = code.files.path(function.file).to_owned();
                let file = lines.place(function.start).file;
                functions.push(Function { name, object, file, ..Function::default() });
                functions.len() - 1
            })
        };
        for Own { block, context, costs } in &self.own {
            let function = number(*context, &mut dump.functions);
            for (address, costs) in block.addresses.iter().zip(costs) {
                if *costs != [0; EVENTS] {
                    dump.functions[function]
                        .own
                        .push((lines.place(*address), costs[..events].to_vec()));
                }
            }
        }
        for Edge { from: (block, context), to, calls, costs } in &self.edges {
            let caller = number(*context, &mut dump.functions);
            let callee = number(*to, &mut dump.functions);
            let start = code.files.functions[(to / settings.separate_recs) as usize].start;
            dump.functions[caller].calls.push(Call {
                from: lines.place(block.last()),
                callee,
                to: lines.place(start),
                calls: *calls,
                costs: costs[..events].to_vec(),
            });
        }
        dump
    }

    /// Finds the lines of all places that are written.
    fn lines(&self, code: &mut Code, settings: &Settings) -> Lines {
        let mut wanted: HashMap<usize, BTreeSet<u64>> = HashMap::new();
        let mut want = |function: u32, addresses: &[u64]| {
            let function = &code.files.functions[function as usize];
            let of_file = wanted.entry(function.file).or_default();
            of_file.insert(function.start);
            of_file.extend(addresses);
        };
        for Own { block, context, costs } in &self.own {
            want(context / settings.separate_recs, &[]);
            if settings.dump_line {
                let costing =
                    block.addresses.iter().zip(costs).filter(|(_, costs)| **costs != [0; EVENTS]);
                want(block.function, &costing.map(|(address, _)| *address).collect::<Vec<_>>());
            }
        }
        for Edge { from: (block, context), to, .. } in &self.edges {
            want(context / settings.separate_recs, &[]);
            want(to / settings.separate_recs, &[]);
            if settings.dump_line {
                want(block.function, &[block.last()]);
            }
        }
        let mut lines = Lines { names: SourceNames::new(), of: HashMap::new() };
        for (file, addresses) in wanted {
            let addresses: Vec<u64> = addresses.into_iter().collect();
            let found = code.files.lines(file, &addresses, &mut lines.names);
            lines.of.extend(found);
        }
        lines
    }
}

/// The lines of places.
struct Lines {
    names: SourceNames,
    of: HashMap<u64, (usize, u32)>,
}

impl Lines {
    fn place(&self, address: u64) -> CodePosition {
        let (file, line) = self.of.get(&address).copied().unwrap_or_default();
        CodePosition { file, line, address }
    }
}

/// The style that the settings ask for.
pub(super) fn style(settings: &Settings) -> Style {
    Style {
        instr: settings.dump_instr,
        line: settings.dump_line,
        compress_strings: settings.compress_strings,
        compress_pos: settings.compress_pos,
    }
}
