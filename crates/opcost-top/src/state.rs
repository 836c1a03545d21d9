//! The state of the live view, and the effect of keys on it. Pure, so that tests drive it with
//! intervals and keys.

use crate::interval::{GroupCost, Interval, in_kernel};
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use opcost_record::Function;
use opcost_symbols::naming::Naming;
use std::collections::{BTreeMap, VecDeque};

/// The number of intervals that are shown together: the last ten seconds, of two each.
const INTERVALS_SHOWN: usize = 5;

/// The samples that are looked at.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub enum Filter {
    /// All samples.
    #[default]
    Everything,
    /// The samples of one process.
    Process(i32, String),
    /// The samples of one thread.
    Thread(i32, String),
    /// The samples taken on one CPU.
    Cpu(i32),
}

/// The kind of rows in the table.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum View {
    /// Functions.
    Functions,
    /// Processes.
    Processes,
    /// Threads.
    Threads,
    /// CPUs.
    Cpus,
    /// The callers of one function.
    Callers(Function),
}

/// The order of the rows.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Sort {
    /// The largest share first.
    Share,
    /// The largest change since the snapshot first.
    Change,
    /// By name.
    Name,
    /// By module, then by share.
    Module,
}

impl Sort {
    const ALL: [(Sort, &'static str); 4] = [
        (Sort::Share, "share"),
        (Sort::Change, "change"),
        (Sort::Name, "name"),
        (Sort::Module, "module"),
    ];

    /// The word for the order on the screen.
    pub fn word(self) -> &'static str {
        Sort::ALL.iter().find(|(sort, _)| *sort == self).map_or("", |(_, word)| word)
    }

    fn next(self) -> Sort {
        let at = Sort::ALL.iter().position(|(sort, _)| *sort == self).unwrap_or(0);
        Sort::ALL[(at + 1) % Sort::ALL.len()].0
    }
}

/// Rows that are left out.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Hidden {
    /// None.
    #[default]
    Nothing,
    /// The kernel's functions, and tasks that were in the kernel alone.
    Kernel,
    /// Programs' functions, and tasks that were never in the kernel.
    User,
}

/// The search for names.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Search {
    /// A part of the names that are shown, in lower case; if empty, all names are shown.
    pub text: String,
    /// Whether keys are letters of the text.
    pub typing: bool,
}

/// The program's next step after a key.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Action {
    /// Show the state.
    Show,
    /// Look at this filter's samples from now on.
    Look(Filter),
    /// Quit.
    Quit,
}

/// A row's name, by which shares and changes are remembered.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct RowName {
    /// The function, process, thread or CPU.
    pub name: String,
    /// The function's module, or the number; a thread's number comes with its process.
    pub module: String,
}

/// One row of the table.
#[derive(Clone, Debug, PartialEq)]
pub struct TopRow {
    /// The row's name.
    pub name: RowName,
    /// The row's part of the table's whole cost, 0 to 1.
    pub share: f64,
    /// The kernel's part of the row's own cost.
    pub kernel_share: f64,
    /// The share less the share in the snapshot; `None` without a snapshot.
    pub change: Option<f64>,
    function: Option<Function>,
    number: Option<i32>,
}

impl TopRow {
    /// The number, or the file name of the module: the end of a path says more than its beginning.
    pub fn place(&self) -> &str {
        let module = self.name.module.as_str();
        if self.number.is_some() { module } else { module.rsplit('/').next().unwrap_or(module) }
    }
}

/// The shares at one moment.
#[derive(Clone, Debug)]
struct Snapshot {
    /// By kind of table and row.
    shares: BTreeMap<(u8, RowName), f64>,
    taken_ns: u64,
}

/// The state of the live view.
#[derive(Clone, Debug)]
pub struct State {
    /// The kind of rows in the table.
    pub view: View,
    /// The samples that are looked at.
    pub filter: Filter,
    /// The order of the rows.
    pub sort: Sort,
    /// The rows that are left out.
    pub hidden: Hidden,
    /// The search for names.
    pub search: Search,
    /// Whether the keys are shown instead of the table.
    pub help: bool,
    /// Whether intervals are discarded instead of shown.
    pub paused: bool,
    /// The selected row.
    pub selected: usize,
    /// Rows that the last screen had room for.
    pub page_rows: usize,
    window: VecDeque<Interval>,
    sum: Interval,
    snapshot: Option<Snapshot>,
    age_ns: u64,
}

impl Default for State {
    fn default() -> Self {
        State {
            view: View::Functions,
            filter: Filter::Everything,
            sort: Sort::Share,
            hidden: Hidden::Nothing,
            search: Search::default(),
            help: false,
            paused: false,
            selected: 0,
            page_rows: 1,
            window: VecDeque::new(),
            sum: Interval::default(),
            snapshot: None,
            age_ns: 0,
        }
    }
}

impl State {
    /// Takes an interval; while paused, only its time counts.
    pub fn tick(&mut self, interval: Interval) {
        self.age_ns += interval.elapsed_ns;
        if self.paused {
            return;
        }
        self.window.push_back(interval);
        if self.window.len() > INTERVALS_SHOWN {
            self.window.pop_front();
        }
        self.sum = Interval::default();
        self.window.iter().for_each(|interval| self.sum.add(interval));
        self.keep_selection_in_range();
    }

    /// The sum of the intervals that are shown.
    pub fn shown(&self) -> &Interval {
        &self.sum
    }

    /// The age of the snapshot that changes refer to, nanoseconds; `None` without a snapshot, and
    /// for callers, whose shares are not remembered.
    pub fn changes_since_ns(&self) -> Option<u64> {
        let snapshot = self.snapshot.as_ref();
        let snapshot = snapshot.filter(|_| !matches!(self.view, View::Callers(_)));
        snapshot.map(|snapshot| self.age_ns - snapshot.taken_ns)
    }

    /// Takes a key.
    pub fn key(&mut self, key: KeyEvent) -> Action {
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            let quit = matches!(key.code, KeyCode::Char('c' | 'd'));
            return if quit { Action::Quit } else { Action::Show };
        }
        if std::mem::take(&mut self.help) {
            return if key.code == KeyCode::Char('q') { Action::Quit } else { Action::Show };
        }
        if self.search.typing && self.type_in(key.code) {
            self.keep_selection_in_range();
            return Action::Show;
        }
        match key.code {
            KeyCode::Char('q') => return Action::Quit,
            KeyCode::Char('h' | '?') => self.help = true,
            KeyCode::Char('/') => self.search = Search { text: String::new(), typing: true },
            KeyCode::Char('K') => self.hide(Hidden::Kernel),
            KeyCode::Char('U') => self.hide(Hidden::User),
            KeyCode::Char('p' | ' ') => self.paused = !self.paused,
            KeyCode::Char('s') => self.sort = self.sort.next(),
            KeyCode::Char('f') => self.show(View::Functions),
            KeyCode::Char('t') => self.show(View::Processes),
            KeyCode::Char('T') => self.show(View::Threads),
            KeyCode::Char('c') => self.show(View::Cpus),
            KeyCode::Char('d') => self.snap(),
            KeyCode::Char('r') => self.forget(),
            KeyCode::Up | KeyCode::Char('k') => self.selected = self.selected.saturating_sub(1),
            KeyCode::Down | KeyCode::Char('j') => self.selected += 1,
            KeyCode::PageUp => self.selected = self.selected.saturating_sub(self.page_rows),
            KeyCode::PageDown => self.selected += self.page_rows,
            KeyCode::Home => self.selected = 0,
            KeyCode::End => self.selected = usize::MAX,
            KeyCode::Enter | KeyCode::Right => return self.enter(),
            KeyCode::Esc | KeyCode::Backspace | KeyCode::Left => return self.back(),
            _ => {}
        }
        self.keep_selection_in_range();
        Action::Show
    }

    /// Takes a key as part of the search; returns whether it was one.
    fn type_in(&mut self, code: KeyCode) -> bool {
        match code {
            KeyCode::Char(letter) => self.search.text.extend(letter.to_lowercase()),
            KeyCode::Backspace => {
                self.search.text.pop();
            }
            KeyCode::Enter => self.search.typing = false,
            KeyCode::Esc => self.search = Search::default(),
            // Arrows go through the rows that were found.
            _ => return false,
        }
        true
    }

    /// Hides these rows, or shows them again if they are hidden.
    fn hide(&mut self, what: Hidden) {
        self.hidden = if self.hidden == what { Hidden::Nothing } else { what };
    }

    fn is_shown(&self, row: &TopRow) -> bool {
        let wanted = &self.search.text;
        let has = |text: &str| text.to_lowercase().contains(wanted);
        (wanted.is_empty() || has(&row.name.name) || has(row.place()))
            && match (&self.view, self.hidden) {
                (View::Cpus, _) | (_, Hidden::Nothing) => true,
                (_, Hidden::Kernel) => row.kernel_share < 1.0,
                (_, Hidden::User) => row.kernel_share > 0.0,
            }
    }

    /// The rows of the table, in its order.
    pub fn rows(&self) -> Vec<TopRow> {
        let mut rows = match &self.view {
            View::Functions => self.function_rows(),
            View::Callers(function) => self.caller_rows(function),
            View::Processes => group_rows(&self.sum.processes, |group, _| group.name.clone()),
            View::Threads => group_rows(&self.sum.threads, |group, _| group.name.clone()),
            View::Cpus => group_rows(&self.sum.cpus, |_, number| format!("CPU {number}")),
        };
        rows.retain(|row| self.is_shown(row));
        if let Some(Snapshot { shares, .. }) = &self.snapshot
            && self.changes_since_ns().is_some()
        {
            for row in &mut rows {
                let before = shares.get(&(self.kind(), row.name.clone())).copied();
                row.change = Some(row.share - before.unwrap_or(0.0));
            }
        }
        rows.sort_by(|one, two| {
            let size = |row: &TopRow| row.change.unwrap_or(0.0).abs();
            let order = match self.sort {
                Sort::Share => std::cmp::Ordering::Equal,
                Sort::Change => size(two).total_cmp(&size(one)),
                Sort::Name => one.name.name.cmp(&two.name.name),
                Sort::Module => one.name.module.cmp(&two.name.module),
            };
            let by_share = || two.share.total_cmp(&one.share);
            order.then_with(by_share).then_with(|| one.name.cmp(&two.name))
        });
        rows
    }

    /// A number for each kind of table, which keeps the tables apart in snapshots.
    fn kind(&self) -> u8 {
        match self.view {
            View::Functions => 0,
            View::Processes => 1,
            View::Cpus => 2,
            View::Callers(_) => 3,
            View::Threads => 4,
        }
    }

    /// The names of functions, chosen so that no two functions of a file have one name.
    pub(crate) fn naming(&self) -> Naming {
        Naming::of(self.sum.functions.keys())
    }

    fn function_rows(&self) -> Vec<TopRow> {
        let total = self.sum.total();
        let naming = self.naming();
        let row = |(function, cost): (&Function, &crate::interval::FunctionCost)| {
            function_row(Some(function), &naming, cost.own, total)
        };
        self.sum.functions.iter().map(row).collect()
    }

    fn caller_rows(&self, function: &Function) -> Vec<TopRow> {
        let Some(cost) = self.sum.functions.get(function) else { return Vec::new() };
        let naming = self.naming();
        let row = |(caller, own): (&Option<Function>, &u64)| {
            function_row(caller.as_ref(), &naming, *own, cost.own)
        };
        cost.callers.iter().map(row).collect()
    }

    fn show(&mut self, view: View) {
        self.view = view;
        self.selected = 0;
    }

    fn enter(&mut self) -> Action {
        let rows = self.rows();
        let Some(row) = rows.get(self.selected) else { return Action::Show };
        match (&self.view, &row.function, row.number) {
            (View::Functions | View::Callers(_), Some(function), _) => {
                self.show(View::Callers(function.clone()));
                Action::Show
            }
            (View::Processes, _, Some(pid)) => {
                self.look(Filter::Process(pid, row.name.name.clone()))
            }
            (View::Threads, _, Some(tid)) => self.look(Filter::Thread(tid, row.name.name.clone())),
            (View::Cpus, _, Some(cpu)) => self.look(Filter::Cpu(cpu)),
            _ => Action::Show,
        }
    }

    fn back(&mut self) -> Action {
        if !self.search.text.is_empty() {
            self.search = Search::default();
            return Action::Show;
        }
        if self.view != View::Functions {
            self.show(View::Functions);
            return Action::Show;
        }
        if self.filter == Filter::Everything { Action::Show } else { self.look(Filter::Everything) }
    }

    /// Looks at other samples. Their figures are others, so everything shown so far is forgotten.
    fn look(&mut self, filter: Filter) -> Action {
        self.forget();
        self.snapshot = None;
        self.show(View::Functions);
        self.filter = filter.clone();
        Action::Look(filter)
    }

    fn forget(&mut self) {
        self.window.clear();
        self.sum = Interval::default();
    }

    /// Remembers all shares, or forgets them if they are remembered.
    fn snap(&mut self) {
        if self.snapshot.take().is_some() {
            return;
        }
        let mut shares = BTreeMap::new();
        let mut as_seen = State {
            hidden: Hidden::Nothing,
            search: Search::default(),
            window: VecDeque::new(),
            ..self.clone()
        };
        for view in [View::Functions, View::Processes, View::Threads, View::Cpus] {
            as_seen.view = view;
            let kind = as_seen.kind();
            shares.extend(as_seen.rows().into_iter().map(|row| ((kind, row.name), row.share)));
        }
        self.snapshot = Some(Snapshot { shares, taken_ns: self.age_ns });
    }

    fn keep_selection_in_range(&mut self) {
        if self.selected > 0 {
            self.selected = self.selected.min(self.rows().len().saturating_sub(1));
        }
    }
}

fn part(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

fn function_row(function: Option<&Function>, naming: &Naming, own: u64, total: u64) -> TopRow {
    let name = match function {
        Some(function) => {
            RowName { name: naming.symbol(function).into_owned(), module: function.module.clone() }
        }
        None => RowName { name: "[no caller known]".into(), module: String::new() },
    };
    TopRow {
        name,
        share: part(own, total),
        kernel_share: f64::from(function.is_some_and(in_kernel)),
        change: None,
        function: function.cloned(),
        number: None,
    }
}

fn group_rows(
    groups: &BTreeMap<i32, GroupCost>,
    name: impl Fn(&GroupCost, i32) -> String,
) -> Vec<TopRow> {
    let total = groups.values().map(|group| group.cost).sum();
    let row = |(number, group): (&i32, &GroupCost)| TopRow {
        name: RowName { name: name(group, *number), module: group.detail.clone() },
        share: part(group.cost, total),
        kernel_share: part(group.kernel, group.cost),
        change: None,
        function: None,
        number: Some(*number),
    };
    groups.iter().map(row).collect()
}

#[cfg(test)]
#[path = "state_tests.rs"]
pub(crate) mod tests;
