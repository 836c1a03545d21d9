use super::*;
use crate::interval::{FunctionCost, GroupCost};

pub(crate) fn function(symbol: &str, module: &str) -> Function {
    Function::new(symbol, module)
}

/// An interval of two seconds in which the functions cost this much, each called by the one before.
pub(crate) fn interval(costs: &[(&str, &str, u64)]) -> Interval {
    let mut interval = Interval { elapsed_ns: 2_000_000_000, ..Interval::default() };
    let mut caller = None;
    for (symbol, module, own) in costs {
        let name = function(symbol, module);
        let callers = BTreeMap::from([(caller, *own)]);
        interval.functions.insert(name.clone(), FunctionCost { own: *own, callers });
        interval.samples += own / 1_000_000;
        caller = Some(name);
    }
    let group = |name: &str, detail: &str, cost, kernel| GroupCost {
        name: name.into(),
        detail: detail.into(),
        cost,
        kernel,
    };
    let total = interval.total();
    interval.processes.insert(812, group("postgres", "812", total / 4 * 3, total / 2));
    interval.processes.insert(7, group("kworker/0:1", "7", total / 4, total / 4));
    interval.threads.insert(812, group("postgres", "812", total / 2, 0));
    interval.threads.insert(815, group("writer", "815 of postgres 812", total / 4, total / 8));
    interval.threads.insert(7, group("kworker/0:1", "7", total / 4, total / 4));
    interval.cpus.insert(0, group("", "", total / 2, total / 2));
    interval.cpus.insert(1, group("", "", total / 2, 0));
    interval
}

pub(crate) fn press(state: &mut State, keys: &[KeyCode]) -> Vec<Action> {
    keys.iter().map(|code| state.key(KeyEvent::new(*code, KeyModifiers::NONE))).collect()
}

fn names(state: &State) -> Vec<String> {
    state.rows().into_iter().map(|row| row.name.name).collect()
}

const FIRST: &[(&str, &str, u64)] = &[("main", "/bin/a", 60), ("copy", "[kernel]", 40)];
const SECOND: &[(&str, &str, u64)] = &[("main", "/bin/a", 10), ("zero", "[kernel]", 90)];

#[test]
fn the_last_intervals_are_shown_together() {
    let mut state = State::default();
    state.tick(interval(FIRST));
    assert_eq!(names(&state), ["main", "copy"]);
    for _ in 0..4 {
        state.tick(interval(SECOND));
    }
    let shares: Vec<f64> = state.rows().iter().map(|row| row.share).collect();
    assert_eq!(
        (names(&state), shares),
        (vec!["zero".into(), "main".into(), "copy".into()], vec![0.72, 0.2, 0.08])
    );
    // The first interval falls out of the window.
    state.tick(interval(SECOND));
    assert_eq!(names(&state), ["zero", "main"]);
    assert_eq!(state.shown().elapsed_ns, 10_000_000_000);
    press(&mut state, &[KeyCode::Char('r')]);
    assert!(state.rows().is_empty());
}

#[test]
fn nothing_moves_while_paused() {
    let mut state = State::default();
    state.tick(interval(FIRST));
    press(&mut state, &[KeyCode::Char('p')]);
    state.tick(interval(SECOND));
    assert_eq!(names(&state), ["main", "copy"]);
    press(&mut state, &[KeyCode::Char(' ')]);
    state.tick(interval(SECOND));
    assert_eq!(names(&state), ["zero", "main", "copy"]);
}

#[test]
fn changes_are_since_the_snapshot() {
    let mut state = State::default();
    state.tick(interval(FIRST));
    assert_eq!(state.rows()[0].change, None);
    press(&mut state, &[KeyCode::Char('d'), KeyCode::Char('r')]);
    state.tick(interval(SECOND));
    let changes = |state: &State| -> Vec<(String, f64)> {
        let rows = state.rows().into_iter();
        rows.map(|row| (row.name.name, (row.change.unwrap() * 100.0).round())).collect()
    };
    assert_eq!(changes(&state), [("zero".to_string(), 90.0), ("main".into(), -50.0)]);
    assert_eq!(state.changes_since_ns(), Some(2_000_000_000));
    // Tasks have their own shares.
    press(&mut state, &[KeyCode::Char('t')]);
    assert!(changes(&state).iter().all(|(_, change)| change.abs() <= 5.0), "{:?}", changes(&state));
    press(&mut state, &[KeyCode::Char('d')]);
    assert_eq!(state.rows()[0].change, None);
}

#[test]
fn rows_are_sorted_as_asked() {
    let mut state = State::default();
    state.tick(interval(&[("b", "z", 5), ("a", "y", 3), ("c", "y", 9)]));
    let mut orders = Vec::new();
    for _ in 0..4 {
        orders.push(names(&state).concat());
        press(&mut state, &[KeyCode::Char('s')]);
    }
    // By share, by change (there is none), by name, by module.
    assert_eq!(orders, ["cba", "cba", "abc", "cab"]);
    assert_eq!(state.sort, Sort::Share);
}

#[test]
fn one_goes_into_rows_and_back() {
    let mut state = State::default();
    state.tick(interval(&[
        ("main", "/bin/a", 10),
        ("read", "/lib/c", 20),
        ("copy", "[kernel]", 70),
    ]));
    press(&mut state, &[KeyCode::Enter]);
    assert_eq!(state.view, View::Callers(function("copy", "[kernel]")));
    assert_eq!(names(&state), ["read"]);
    press(&mut state, &[KeyCode::Enter, KeyCode::Enter]);
    assert_eq!(state.view, View::Callers(function("main", "/bin/a")));
    assert_eq!(names(&state), ["[no caller known]"]);
    // An unknown caller has no callers to show.
    press(&mut state, &[KeyCode::Enter]);
    assert_eq!(state.view, View::Callers(function("main", "/bin/a")));
    press(&mut state, &[KeyCode::Esc]);
    assert_eq!(state.view, View::Functions);

    press(&mut state, &[KeyCode::Char('t'), KeyCode::Down, KeyCode::Down, KeyCode::Up]);
    assert_eq!(
        (state.selected, names(&state).as_slice()),
        (0, &["postgres".into(), "kworker/0:1".into()][..])
    );
    let only = Filter::Process(812, "postgres".into());
    assert_eq!(press(&mut state, &[KeyCode::Enter]), [Action::Look(only.clone())]);
    assert_eq!((state.filter.clone(), state.rows().len()), (only, 0));
    assert_eq!(press(&mut state, &[KeyCode::Esc]), [Action::Look(Filter::Everything)]);
    assert_eq!(
        press(&mut state, &[KeyCode::Esc, KeyCode::Char('c')]),
        [Action::Show, Action::Show]
    );
    state.tick(interval(FIRST));
    assert_eq!(
        press(&mut state, &[KeyCode::Down, KeyCode::Enter]),
        [Action::Show, Action::Look(Filter::Cpu(1))]
    );
}

#[test]
fn a_search_shows_what_has_the_letters() {
    let mut state = State::default();
    let costs = [("read", "/lib/libc.so", 5), ("Copy", "[kernel]", 9), ("main", "/opt/read/a", 3)];
    state.tick(interval(&costs));
    let type_in = |state: &mut State, text: &str| {
        text.chars()
            .for_each(|letter| assert_eq!(press(state, &[KeyCode::Char(letter)]), [Action::Show]));
    };
    // Keys are letters until Enter: neither `q` quits nor `c` shows CPUs.
    type_in(&mut state, "/qcOp");
    assert!(names(&state).is_empty());
    press(&mut state, &[KeyCode::Backspace; 4]);
    type_in(&mut state, "cOp");
    assert_eq!((names(&state), state.search.typing), (vec!["Copy".to_string()], true));
    press(&mut state, &[KeyCode::Enter]);
    assert_eq!((names(&state), state.search.typing), (vec!["Copy".to_string()], false));
    // Shares still refer to everything.
    assert!((state.rows()[0].share - 9.0 / 17.0).abs() < 1e-9);
    press(&mut state, &[KeyCode::Esc]);
    assert_eq!(names(&state).len(), 3);
    // A file's name counts and its folders do not, as they are not on the screen.
    type_in(&mut state, "/read");
    assert_eq!(names(&state), ["read"]);
    press(&mut state, &[KeyCode::Esc]);
    type_in(&mut state, "/libc");
    assert_eq!(names(&state), ["read"]);
    assert_eq!(press(&mut state, &[KeyCode::Esc]), [Action::Show]);
    // The selection goes through the rows that were found.
    press(&mut state, &[KeyCode::End]);
    assert_eq!(state.selected, 2);
    type_in(&mut state, "/copy");
    assert_eq!(state.selected, 0);
    press(&mut state, &[KeyCode::Enter, KeyCode::Enter]);
    assert_eq!(state.view, View::Callers(function("Copy", "[kernel]")));
}

#[test]
fn the_kernel_or_the_programs_are_hidden() {
    let mut state = State::default();
    state.tick(interval(FIRST));
    press(&mut state, &[KeyCode::Char('K')]);
    assert_eq!((names(&state), state.rows()[0].share), (vec!["main".to_string()], 0.6));
    press(&mut state, &[KeyCode::Char('U')]);
    assert_eq!(names(&state), ["copy"]);
    press(&mut state, &[KeyCode::Char('U')]);
    assert_eq!(names(&state), ["main", "copy"]);
    // Tasks are hidden if they were in the kernel alone, or never in it.
    let tasks = |state: &mut State, keys: &[char]| {
        keys.iter().for_each(|key| drop(press(state, &[KeyCode::Char(*key)])));
        names(state)
    };
    assert_eq!(tasks(&mut state, &['T']), ["postgres", "kworker/0:1", "writer"]);
    assert_eq!(tasks(&mut state, &['K']), ["postgres", "writer"]);
    assert_eq!(tasks(&mut state, &['U']), ["kworker/0:1", "writer"]);
    assert_eq!(tasks(&mut state, &['c']), ["CPU 0", "CPU 1"]);
    // A snapshot has all rows, also hidden ones.
    press(&mut state, &[KeyCode::Char('f'), KeyCode::Char('d'), KeyCode::Char('U')]);
    state.tick(interval(FIRST));
    assert!(state.rows().iter().all(|row| row.change.unwrap().abs() < 1e-9));
}

#[test]
fn one_thread_is_looked_at_alone() {
    let mut state = State::default();
    state.tick(interval(FIRST));
    press(&mut state, &[KeyCode::Char('T'), KeyCode::Down, KeyCode::Down]);
    let rows = state.rows();
    assert_eq!((rows[2].name.name.as_str(), rows[2].place()), ("writer", "815 of postgres 812"));
    let only = Filter::Thread(815, "writer".into());
    assert_eq!(press(&mut state, &[KeyCode::Enter]), [Action::Look(only.clone())]);
    assert_eq!((state.filter.clone(), &state.view), (only, &View::Functions));
}

#[test]
fn the_help_ends_with_the_next_key() {
    let mut state = State::default();
    state.tick(interval(FIRST));
    for key in ['?', 'h'] {
        press(&mut state, &[KeyCode::Char(key)]);
        assert!(state.help);
        assert_eq!(press(&mut state, &[KeyCode::Char('t')]), [Action::Show]);
        assert!(!state.help && state.view == View::Functions);
    }
    assert_eq!(press(&mut state, &[KeyCode::Char('?'), KeyCode::Char('q')])[1], Action::Quit);
}

#[test]
fn the_selection_stays_within_the_rows() {
    let mut state = State { page_rows: 10, ..State::default() };
    press(&mut state, &[KeyCode::Down, KeyCode::Enter, KeyCode::PageDown]);
    assert_eq!(state.selected, 0);
    state.tick(interval(FIRST));
    press(&mut state, &[KeyCode::End]);
    assert_eq!(state.selected, 1);
    press(&mut state, &[KeyCode::PageDown, KeyCode::PageUp]);
    assert_eq!(state.selected, 0);
}

#[test]
fn q_and_control_c_quit_and_c_alone_does_not() {
    let mut state = State::default();
    assert_eq!(press(&mut state, &[KeyCode::Char('q')]), [Action::Quit]);
    let control_c = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
    assert_eq!(state.key(control_c), Action::Quit);
    assert_eq!(press(&mut state, &[KeyCode::Char('c')]), [Action::Show]);
}
