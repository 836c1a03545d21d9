use super::*;
use crate::state::tests::{interval, press};
use crossterm::event::KeyCode;
use ratatui_core::backend::TestBackend;
use ratatui_core::terminal::Terminal;

fn caption(color: bool) -> Caption {
    Caption { what: "cpu-clock at 997 Hz, all CPUs".into(), color }
}

/// The screen of a terminal of 80 columns and 24 lines, each line without its trailing blanks.
fn screen(state: &State) -> String {
    let mut terminal = Terminal::new(TestBackend::new(80, 24)).unwrap();
    terminal.draw(|frame| draw(state, &caption(false), frame.area(), frame.buffer_mut())).unwrap();
    let buffer = terminal.backend().buffer();
    let line = |y| (0..80).map(|x| buffer[(x, y)].symbol()).collect::<String>();
    (0..24).map(|y| format!("{}\n", line(y).trim_end())).collect()
}

const COSTS: &[(&str, &str, u64)] = &[
    ("main", "/usr/lib/postgresql/17/bin/postgres", 150_000_000),
    ("ExecInterpExpr", "/usr/lib/postgresql/17/bin/postgres", 700_000_000),
    ("__memmove_avx_unaligned_erms", "/usr/lib/x86_64-linux-gnu/libc.so.6", 250_000_000),
    ("copy_page_range", "[kernel]", 600_000_000),
    ("ext4_mark_iloc_dirty", "[ext4]", 100_000_000),
    (
        "<core::iter::adapters::map::Map<I, F> as core::iter::traits::iterator::Iterator>::fold",
        "/usr/bin/a program",
        50_000_000,
    ),
];

fn state() -> State {
    let mut state = State::default();
    state.tick(interval(COSTS));
    state
}

#[test]
fn functions() {
    insta::assert_snapshot!(screen(&state()));
}

#[test]
fn callers_and_changes() {
    let mut state = state();
    press(&mut state, &[KeyCode::Char('d'), KeyCode::Down, KeyCode::Enter]);
    state.tick(interval(&COSTS[..4]));
    insta::assert_snapshot!(screen(&state));
    press(&mut state, &[KeyCode::Esc, KeyCode::Char('s'), KeyCode::Char('p')]);
    insta::assert_snapshot!(screen(&state));
}

#[test]
fn processes() {
    let mut state = state();
    press(&mut state, &[KeyCode::Char('t'), KeyCode::Down]);
    insta::assert_snapshot!(screen(&state));
}

#[test]
fn threads_of_a_search() {
    let mut state = state();
    press(&mut state, &[KeyCode::Char('T'), KeyCode::Char('U'), KeyCode::Char('/')]);
    press(&mut state, &[KeyCode::Char('P'), KeyCode::Char('o')]);
    insta::assert_snapshot!(screen(&state));
}

#[test]
fn the_keys_have_room_on_a_small_terminal() {
    let mut state = state();
    press(&mut state, &[KeyCode::Char('?')]);
    let screen = screen(&state);
    insta::assert_snapshot!(screen);
    for (key, what) in KEYS {
        assert!(
            screen.lines().any(|line| line.starts_with(&format!(" {key}")) && line.ends_with(what))
        );
        assert!(keys_help().contains(what), "{key}");
    }
}

#[test]
fn nothing_yet_and_nothing_at_all() {
    let mut state = State::default();
    assert!(screen(&state).contains("\n waiting for samples…\n"));
    state.tick(interval(&[]));
    assert!(screen(&state).contains("\n no samples: nothing ran\n"));
    press(&mut state, &[KeyCode::Char('K')]);
    assert!(screen(&state).contains("\n nothing to show: Esc ends a search"));
}

#[test]
fn the_selected_row_is_always_on_the_screen() {
    let names: Vec<String> = (0..60).map(|number| format!("f{number:02}")).collect();
    let costs: Vec<(&str, &str, u64)> =
        names.iter().map(|name| (name.as_str(), "m", 1_000_000)).collect();
    let mut state = State::default();
    state.page_rows = rows_shown(24);
    state.tick(interval(&costs));
    assert!(screen(&state).contains(" f19 ") && !screen(&state).contains(" f20 "));
    press(&mut state, &[KeyCode::PageDown, KeyCode::PageDown]);
    assert!(screen(&state).contains(" f40 ") && !screen(&state).contains(" f41 "));
    press(&mut state, &[KeyCode::End]);
    assert!(screen(&state).contains(" f59 ") && !screen(&state).contains(" f39 "));
}

#[test]
fn without_colour_there_is_none_and_any_size_will_do() {
    let mut state = state();
    press(&mut state, &[KeyCode::Char('d')]);
    state.tick(interval(&COSTS[..1]));
    for color in [false, true] {
        let mut colored = false;
        for (width, height) in [(80, 24), (20, 5), (1, 1), (0, 0), (300, 3)] {
            let area = Rect::new(0, 0, width, height);
            let mut buffer = Buffer::empty(area);
            draw(&state, &caption(color), area, &mut buffer);
            colored |= buffer.content().iter().any(|cell| cell.fg != Color::Reset);
        }
        assert_eq!(colored, color);
    }
}

#[test]
fn a_text_has_no_keys_and_no_empty_lines() {
    let text = text(&state(), &caption(true), 80, 24);
    assert_eq!(text.lines().count(), 3 + COSTS.len());
    assert!(!text.contains("quit") && text.ends_with("a program\n"), "{text}");
}
