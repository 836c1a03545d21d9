//! Attribution of code addresses to functions.

use crate::class::{self, Head};
use opcost_record::symbols::{
    Alternative, Landmark, LandmarkAt, Load, PAGE_BYTES, Range, Symbols, blanked, page_hash,
    sites_in_page,
};
use opcost_record::{Function, profile::KERNEL};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;

/// Name of code that no symbol covers, and name of an unknown module.
pub(crate) const UNKNOWN: &str = "[unknown]";
/// Name of the context that takes the cost for which the tree has no room.
pub(crate) const OTHER_CONTEXTS: &str = "[other contexts]";

/// Name of code of the kernel's image that the kernel maps at a second address, and of which no symbol is known: the list of symbols
/// omits the page by which programs enter a kernel with page table isolation.
pub(crate) const TRAMPOLINE: &str = "[trampoline]";

/// The module of frames that stand for vCPUs.
const VCPU: &str = "[machine]";

/// Largest number of remembered searches for pages that are not in `pages`.
const LOOKED_FOR_MAX: usize = 1 << 16;

/// A function at an address.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Owner {
    /// The function's number.
    pub(crate) function: u32,
    /// Whether the address is the function's first.
    pub(crate) at_entry: bool,
    /// The address that the linker gave the code.
    pub(crate) linked_at: u64,
}

/// A page that its program changes at runtime.
struct Changing {
    file: usize,
    offset: u64,
    /// The patched places in the page.
    sites: Vec<(usize, usize)>,
    /// The hash of the page without its sites.
    hash: u64,
}

/// The symbols, arranged for lookups.
pub(crate) struct Attribution {
    functions: Vec<Function>,
    kernel: Vec<Range>,
    /// An address of the kernel's image, and its place in this process's memory.
    image: Cell<Option<(u64, usize)>>,
    landmarks: HashMap<u64, (Landmark, Option<usize>)>,
    /// Names of the landmarks' metrics, by the place of their counter.
    metrics: Vec<String>,
    /// Functions by file offset, and the link addresses of code, of each file.
    files: Vec<(Vec<Range>, Vec<Load>)>,
    /// The address of the first function of each loadable module of the kernel.
    modules: HashMap<String, u64>,
    /// File and offset by the hash of a page; several where pages are alike.
    pages: HashMap<u64, Vec<(usize, u64)>>,
    /// Pages that programs change themselves.
    changing: Vec<Changing>,
    /// Results of searches in `changing`, by the hash of the page that was looked up.
    looked_for: RefCell<HashMap<u64, Option<(usize, u64)>>>,
    unknown_kernel: u32,
    trampoline: u32,
    unknown_user: u32,
    other_contexts: u32,
    /// The frames that stand for several vCPUs.
    vcpu_frames: Vec<u32>,
    alternatives: Vec<Alternative>,
}

impl Attribution {
    /// Arranges symbols; `vcpus`: the number of vCPUs that the guest has.
    pub(crate) fn new(symbols: Symbols, vcpus: usize) -> Attribution {
        let mut functions = symbols.functions;
        let mut add = |symbol: &str, module: &str| {
            functions.push(Function::new(symbol, module));
            functions.len() as u32 - 1
        };
        let unknown_kernel = add(UNKNOWN, KERNEL);
        let trampoline = add(TRAMPOLINE, KERNEL);
        let unknown_user = add(UNKNOWN, UNKNOWN);
        let other_contexts = add(OTHER_CONTEXTS, UNKNOWN);
        let several = if vcpus > 1 { vcpus } else { 0 };
        let frames =
            (0..several).map(|vcpu| add(&format!("[CPU {vcpu}]"), VCPU)).collect::<Vec<_>>();
        let mut metrics: Vec<String> = Vec::new();
        let mut landmarks = HashMap::new();
        let has = |wanted| symbols.landmarks.iter().any(|at| at.landmark == wanted);
        // A switch whose cause is unknown keeps its caller's class.
        let switches = [Landmark::Due, Landmark::Schedule];
        let follows = switches.into_iter().all(has);
        let followed = |at: &LandmarkAt| {
            use Landmark::{Due, Resume, Schedule, Yield};
            follows || !matches!(at.landmark, Due | Yield | Schedule | Resume)
        };
        for at in symbols.landmarks.into_iter().filter(followed) {
            let place = at.metric.map(|metric| {
                metrics.iter().position(|known| *known == metric).unwrap_or_else(|| {
                    metrics.push(metric);
                    metrics.len() - 1
                })
            });
            landmarks.insert(at.address, (at.landmark, place));
        }
        let mut pages: HashMap<u64, Vec<(usize, u64)>> = HashMap::new();
        let (mut files, mut changing) = (Vec::new(), Vec::new());
        for (number, file) in symbols.files.into_iter().enumerate() {
            for (offset, hash) in file.pages {
                let sites = sites_in_page(&file.sites, offset);
                if sites.is_empty() {
                    pages.entry(hash).or_default().push((number, offset));
                } else {
                    changing.push(Changing { file: number, offset, sites, hash });
                }
            }
            files.push((file.parts, file.loads));
        }
        let mut modules = HashMap::new();
        for Range { start, function, .. } in &symbols.kernel {
            let module = &functions[*function as usize].module;
            if module != KERNEL && !modules.contains_key(module) {
                modules.insert(module.clone(), *start);
            }
        }
        Attribution {
            functions,
            kernel: symbols.kernel,
            image: Cell::default(),
            landmarks,
            metrics,
            files,
            modules,
            pages,
            changing,
            looked_for: RefCell::default(),
            unknown_kernel,
            trampoline,
            unknown_user,
            other_contexts,
            vcpu_frames: frames,
            alternatives: symbols.alternatives,
        }
    }

    /// Code that the kernel may have replaced.
    pub(crate) fn alternatives(&self) -> &[Alternative] {
        &self.alternatives
    }

    pub(crate) fn functions(&self) -> &[Function] {
        &self.functions
    }

    /// Names of the landmarks' metrics, by the place of their counter.
    pub(crate) fn metrics(&self) -> &[String] {
        &self.metrics
    }

    /// The frames that stand for the vCPUs; none if the guest has one vCPU.
    pub(crate) fn vcpu_frames(&self) -> &[u32] {
        &self.vcpu_frames
    }

    /// The effect of each function on the class of its contexts; empty if the kernel's symbols do not tell classes apart.
    pub(crate) fn heads(&self) -> Vec<Head> {
        let has = |wanted| self.landmarks.values().any(|(landmark, _)| *landmark == wanted);
        let entered = [Landmark::Interrupt, Landmark::Switch, Landmark::Fork].into_iter().all(has);
        if !entered || !class::are_told(&self.functions) {
            return Vec::new();
        }
        let mut heads = vec![Head::User; self.functions.len()];
        let kernel = self.kernel.iter().map(|range| range.function);
        for function in kernel.chain([self.unknown_kernel, self.trampoline]) {
            heads[function as usize] = Head::of(&self.functions[function as usize]);
        }
        heads
    }

    /// The number of [`OTHER_CONTEXTS`].
    pub(crate) fn other_contexts(&self) -> u32 {
        self.other_contexts
    }

    /// Whether there are programs whose pages could be recognised.
    pub(crate) fn has_pages(&self) -> bool {
        !self.pages.is_empty() || !self.changing.is_empty()
    }

    /// Returns the landmark at an address, with the place of its counter.
    pub(crate) fn landmark(&self, address: u64) -> Option<(Landmark, Option<usize>)> {
        self.landmarks.get(&address).copied()
    }

    /// Returns a landmark without a name, with the counter of those that have one.
    pub(crate) fn unnamed(&self, landmark: Landmark) -> (Landmark, Option<usize>) {
        let same =
            |(known, place): &(Landmark, Option<usize>)| (*known == landmark).then_some(*place);
        (landmark, self.landmarks.values().filter_map(same).flatten().next())
    }

    /// Whether the symbols say where the kernel is entered by a fault.
    pub(crate) fn knows_faults(&self) -> bool {
        self.landmarks.values().any(|(landmark, _)| *landmark == Landmark::Fault)
    }

    /// Whether a symbol covers a kernel address.
    pub(crate) fn has_kernel(&self, address: u64) -> bool {
        find(&self.kernel, address).is_some()
    }

    /// The function at a kernel address.
    ///
    /// `memory`: where the code lies in this process's memory, if the kernel may execute code of its image at other addresses, too.
    pub(crate) fn kernel_owner(&self, address: u64, memory: Option<usize>) -> Owner {
        let unknown = Owner { function: self.unknown_kernel, at_entry: false, linked_at: address };
        let Some(owner) = find(&self.kernel, address) else {
            return memory.and_then(|memory| self.of_image(address, memory)).unwrap_or(unknown);
        };
        let module = &self.functions[owner.function as usize].module;
        if let (Some(memory), None, KERNEL) = (memory, self.image.get(), module.as_str()) {
            self.image.set(Some((address, memory)));
        }
        let start = self.modules.get(module).copied().unwrap_or(0);
        Owner { linked_at: address.wrapping_sub(start), ..owner }
    }

    /// Returns the function whose memory is mapped again at a kernel address without a symbol: the kernel's image is one piece of
    /// memory, from its first function to its last.
    fn of_image(&self, address: u64, memory: usize) -> Option<Owner> {
        let (known, place) = self.image.get()?;
        let linked_at = known.wrapping_add(memory.wrapping_sub(place) as u64);
        let own = |range: &&Range| self.functions[range.function as usize].module == KERNEL;
        let first = self.kernel.iter().find(own)?.start;
        let last = self.kernel.iter().rfind(own)?.end;
        let is_again = address != linked_at && (first..last).contains(&linked_at);
        let same_place_in_page = (address ^ linked_at).is_multiple_of(PAGE_BYTES as u64);
        (is_again && same_place_in_page).then(|| {
            let unnamed = Owner { function: self.trampoline, at_entry: false, linked_at };
            find(&self.kernel, linked_at).unwrap_or(unnamed)
        })
    }

    /// Returns the function at a user address.
    ///
    /// `page`: contents of the page that holds the address, if they can be read.
    pub(crate) fn user_owner(&self, address: u64, page: Option<&[u8; PAGE_BYTES]>) -> Owner {
        let unknown = Owner { function: self.unknown_user, at_entry: false, linked_at: address };
        let Some(page) = page else { return unknown };
        let within = address % PAGE_BYTES as u64;
        let find = |(file, offset): (usize, u64)| {
            let ((parts, loads), offset) = (&self.files[file], offset + within);
            let owner = find(parts, offset)?;
            let load = loads.iter().find(|load| (load.start..load.end).contains(&offset));
            let linked_at =
                load.map_or(offset, |load| load.address.wrapping_add(offset - load.start));
            Some(Owner { linked_at, ..owner })
        };
        let hash = page_hash(page);
        match self.pages.get(&hash) {
            Some(places) => places.iter().copied().find_map(find),
            None => self.changing_page(hash, page).and_then(find),
        }
        .unwrap_or(unknown)
    }

    /// Returns the known changing page that `page` is a version of; `hash` is the hash of `page` and not in `pages`.
    fn changing_page(&self, hash: u64, page: &[u8; PAGE_BYTES]) -> Option<(usize, u64)> {
        let mut looked_for = self.looked_for.borrow_mut();
        if looked_for.len() >= LOOKED_FOR_MAX {
            looked_for.clear();
        }
        *looked_for.entry(hash).or_insert_with(|| {
            let is = |known: &&Changing| page_hash(&blanked(page, &known.sites)) == known.hash;
            self.changing.iter().find(is).map(|known| (known.file, known.offset))
        })
    }
}

fn find(ranges: &[Range], address: u64) -> Option<Owner> {
    let behind = ranges.partition_point(|range| range.start <= address);
    let range = ranges[..behind].last().filter(|range| address < range.end)?;
    Some(Owner { function: range.function, at_entry: range.start == address, linked_at: address })
}

#[cfg(test)]
mod tests {
    use super::*;
    use opcost_record::symbols::FileSymbols;

    fn attribution() -> Attribution {
        let function = |symbol: &str, module: &str| Function::new(symbol, module);
        let mut page = [0; PAGE_BYTES];
        page[0x40] = 0xc3;
        Attribution::new(
            Symbols {
                functions: vec![function("fault", KERNEL), function("main", "/bin/true")],
                kernel: vec![Range { start: 0x8000, end: 0x8010, function: 0 }],
                landmarks: vec![
                    LandmarkAt {
                        address: 0x8000,
                        landmark: Landmark::Fault,
                        metric: Some("page-faults".into()),
                    },
                    LandmarkAt { address: 0x9000, landmark: Landmark::Fork, metric: None },
                    LandmarkAt {
                        address: 0xa000,
                        landmark: Landmark::Fault,
                        metric: Some("page-faults".into()),
                    },
                ],
                files: vec![FileSymbols {
                    loads: vec![Load { start: 0x1000, end: 0x1180, address: 0x40_1000 }],
                    parts: vec![Range { start: 0x1040, end: 0x1180, function: 1 }],
                    pages: vec![(0x1000, page_hash(&page))],
                    sites: vec![],
                }],
                ..Symbols::default()
            },
            1,
        )
    }

    #[test]
    fn kernel_code_is_found_by_address() {
        let attribution = attribution();
        assert_eq!(
            attribution.kernel_owner(0x8000, None),
            Owner { function: 0, at_entry: true, linked_at: 0x8000 }
        );
        assert_eq!(
            attribution.kernel_owner(0x800f, None),
            Owner { function: 0, at_entry: false, linked_at: 0x800f }
        );
        for outside in [0x7fff, 0x8010] {
            let owner = attribution.kernel_owner(outside, None);
            let function = &attribution.functions()[owner.function as usize];
            assert_eq!((function.symbol.as_str(), function.module.as_str()), (UNKNOWN, KERNEL));
        }
    }

    #[test]
    fn code_of_the_image_that_is_mapped_again_is_its_function_or_the_trampoline() {
        let names = [("vectors", KERNEL), ("tramp", KERNEL), ("write", "[ext4]"), ("init", KERNEL)];
        let functions = names.map(|(name, module)| Function::new(name, module)).to_vec();
        let range = |start, function| Range { start, end: start + 0x100, function };
        let kernel = vec![range(0x8000, 0), range(0xa800, 1), range(0xd000, 3), range(0xf000, 2)];
        let attribution = Attribution::new(Symbols { functions, kernel, ..Symbols::default() }, 1);
        let name = |address, memory| {
            let owner = attribution.kernel_owner(address, memory);
            let symbol = &attribution.functions()[owner.function as usize].symbol;
            (symbol.clone(), owner.at_entry)
        };
        let is = |symbol: &str, at_entry| (symbol.to_owned(), at_entry);
        assert_eq!(name(0x5_0800, Some(0x2800)), is(UNKNOWN, false), "the image has no place yet");
        // A module lies elsewhere in memory.
        name(0xf000, Some(0x77_0000));
        name(0x8004, Some(0x4));
        assert_eq!(name(0x5_0800, Some(0x2800)), is("tramp", true));
        assert_eq!(name(0x5_0804, Some(0x2804)), is("tramp", false));
        assert_eq!(name(0x5_0900, Some(0x2900)), is(TRAMPOLINE, false));
        assert_eq!(attribution.kernel_owner(0x5_0804, Some(0x2804)).linked_at, 0xa804);
        for (address, memory) in [
            (0x5_0804, None),
            (0x5_0808, Some(0x2804)),
            (0x5_0000, Some(0x7000)),
            // The image's own address.
            (0x9000, Some(0x1000)),
        ] {
            assert_eq!(name(address, memory), is(UNKNOWN, false), "{address:#x} {memory:?}");
        }
    }

    #[test]
    fn code_of_a_loadable_module_is_at_its_distance_from_the_modules_first_function() {
        let functions = vec![Function::new("fault", KERNEL), Function::new("write", "[ext4]")];
        let range = |start, function| Range { start, end: start + 0x100, function };
        let kernel = vec![range(0x8000, 0), range(0x9000, 1), range(0x9100, 1)];
        let attribution = Attribution::new(Symbols { functions, kernel, ..Symbols::default() }, 1);
        for (address, linked_at) in
            [(0x8004, 0x8004), (0x9000, 0), (0x9104, 0x104), (0xa000, 0xa000)]
        {
            assert_eq!(
                attribution.kernel_owner(address, None).linked_at,
                linked_at,
                "{address:#x}"
            );
        }
    }

    #[test]
    fn user_code_is_found_by_the_contents_of_its_page() {
        let attribution = attribution();
        let mut page = [0; PAGE_BYTES];
        page[0x40] = 0xc3;
        let main = attribution.user_owner(0x5555_5000_0040, Some(&page));
        assert_eq!(main, Owner { function: 1, at_entry: true, linked_at: 0x40_1040 });
        let unknown = attribution.user_owner(0x5555_5000_0010, Some(&page)).function;
        assert_eq!(attribution.functions()[unknown as usize].module, UNKNOWN);
        page[0] = 1;
        assert_eq!(attribution.user_owner(0x5555_5000_0040, Some(&page)).function, unknown);
        assert_eq!(attribution.user_owner(0x5555_5000_0040, None).function, unknown);
    }

    #[test]
    fn a_page_is_known_whatever_its_program_wrote_to_the_sites_in_it() {
        let function = Function::new("main", "/bin/true");
        let (mut page, sites) = ([0x90; PAGE_BYTES], vec![(0x1100, 0x1105), (0x1ffe, 0x2003)]);
        let hash = page_hash(&blanked(&page, &sites_in_page(&sites, 0x1000)));
        let attribution = Attribution::new(
            Symbols {
                functions: vec![function],
                files: vec![FileSymbols {
                    loads: vec![],
                    parts: vec![Range { start: 0x1040, end: 0x1180, function: 0 }],
                    pages: vec![(0x1000, hash)],
                    sites,
                }],
                ..Symbols::default()
            },
            1,
        );
        let owner = |page: &[u8; PAGE_BYTES]| attribution.user_owner(0x40_0100, Some(page));
        assert!(attribution.has_pages());
        assert_eq!(owner(&page), Owner { function: 0, at_entry: false, linked_at: 0x1100 });
        page[0x100..0x105].fill(0xcc);
        page[0xffe] = 0xe8;
        assert_eq!(owner(&page).function, 0);
        page[0x105] = 0xcc;
        for _ in 0..2 {
            assert_eq!(attribution.functions()[owner(&page).function as usize].symbol, UNKNOWN);
        }
        page[0x105] = 0x90;
        assert_eq!(owner(&page).function, 0);
    }

    #[test]
    fn landmarks_of_one_metric_share_its_counter() {
        let attribution = attribution();
        assert_eq!(attribution.metrics(), ["page-faults"]);
        assert_eq!(attribution.landmark(0xa000), Some((Landmark::Fault, Some(0))));
        assert_eq!(attribution.landmark(0x9000), Some((Landmark::Fork, None)));
        assert_eq!(attribution.landmark(0x8001), None);
    }
}
