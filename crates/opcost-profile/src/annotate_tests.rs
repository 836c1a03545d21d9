use super::*;
use std::time::Duration;

fn file(path: &Path, md5: Option<[u8; 16]>) -> SourceFile {
    SourceFile { path: path.to_str().unwrap().into(), md5, declared: Vec::new() }
}

#[test]
fn a_source_is_shown_only_if_it_is_the_compiled_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("work.c");
    fs::write(&path, "one\ntwo\n").unwrap();
    let written = fs::metadata(&path).unwrap().modified().unwrap();
    let after = Some(written + Duration::from_secs(5));
    let before = Some(written - Duration::from_secs(5));
    let of = |md5, modified| source_text(&file(&path, md5), &[], modified);
    let older = of(None, after);
    assert_eq!((older.state, older.lines), (SourceState::Older, vec!["one".into(), "two".into()]));
    let younger = of(None, before);
    assert_eq!((younger.state, younger.lines), (SourceState::Younger, Vec::<String>::new()));
    assert_eq!(
        of(None, None).state,
        SourceState::Undated,
        "nothing tells when the program was written"
    );
    // md5sum gives this hash of `one\ntwo\n`. The hash decides, whatever the times.
    let right = 0x2094_b601_daac_3d68_f5ae_d51d_3c20_f7cd_u128.to_be_bytes();
    assert_eq!(of(Some(right), before).state, SourceState::Checked);
    assert_eq!(of(Some([7; 16]), after).state, SourceState::Changed);
    assert!(of(Some([7; 16]), after).lines.is_empty());
    let missing = source_text(&file(&folder.path().join("none.c"), None), &[], after);
    assert_eq!(missing.state, SourceState::Missing);
    // A path of debug information may be anything.
    assert_eq!(source_text(&file(folder.path(), None), &[], after).lines, Vec::<String>::new());
}

#[test]
fn a_source_whose_functions_begin_at_other_lines_is_another_version() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("work.c");
    let text = "/* work */
static int
work (int n)
{
  return helper (n);
}
MAKE_LIST(item)
#[derive(Debug)]
    pub fn fmt<T>(&self) { other(); }
void Shape::draw() const {
";
    fs::write(&path, text).unwrap();
    let after = Some(fs::metadata(&path).unwrap().modified().unwrap() + Duration::from_secs(5));
    let state = |line: u32, name: &str| {
        let declared = vec![(line, name.to_string())];
        source_text(&SourceFile { declared, ..file(&path, None) }, &[], after).state
    };
    let (moved, shown) = (SourceState::Moved, SourceState::Older);
    assert_eq!(
        (state(3, "work"), state(4, "work"), state(2, "work")),
        (shown.clone(), moved.clone(), moved.clone())
    );
    assert_eq!((state(9, "fmt<u8>"), state(10, "fmt<u8>")), (shown.clone(), moved.clone()));
    assert_eq!((state(10, "draw"), state(6, "draw")), (shown.clone(), moved.clone()));
    // The file ends before the function.
    assert_eq!(state(11, "work"), moved);
    // Macros and derive make functions that their lines do not name; a call is no beginning.
    for (line, name) in [(7, "item_add"), (8, "fmt"), (6, "helper"), (5, "operator()"), (1, "")] {
        assert_eq!(state(line, name), shown, "{name}");
    }
    // A hash of the contents tells more.
    let declared = vec![(4, "work".to_string())];
    let md5 = Some(Md5::digest(text).into());
    assert_eq!(
        source_text(&SourceFile { declared, ..file(&path, md5) }, &[], after).state,
        SourceState::Checked
    );
}

#[test]
fn a_source_path_leads_to_no_pipe_no_device_and_no_huge_file() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe.c");
    // A pipe without a writer would make a reader wait for ever.
    let made = std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
    assert!(made.success());
    let huge = folder.path().join("huge.c");
    fs::File::create(&huge).unwrap().set_len(SOURCE_BYTES_MAX + 1).unwrap();
    let link = folder.path().join("link.c");
    std::os::unix::fs::symlink("/dev/zero", &link).unwrap();
    let now = Some(SystemTime::now() + Duration::from_secs(5));
    for path in [&pipe, &huge, &link, &PathBuf::from("/dev/zero")] {
        let found = source_text(&file(path, None), &[], now);
        assert!(matches!(found.state, SourceState::Unreadable(_)), "{path:?}: {:?}", found.state);
        assert!(found.lines.is_empty());
    }
}

#[test]
fn sources_are_found_below_the_folders_that_the_user_names() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    fs::create_dir_all(root.join("lib")).unwrap();
    fs::write(root.join("lib/a.c"), "a\n").unwrap();
    let state = |text: &str, path: &str| {
        let root = text.replace("ROOT", root.to_str().unwrap());
        source_text(&file(Path::new(path), None), &[root.parse().unwrap()], None).state
    };
    assert_eq!(state("ROOT", "/build/x-1.0/lib/a.c"), SourceState::Named);
    assert_eq!(state("ROOT", "./lib/a.c"), SourceState::Named);
    assert_eq!(state("/build/x-1.0=ROOT", "/build/x-1.0/lib/a.c"), SourceState::Named);
    assert_eq!(state("/build/y=ROOT", "/build/x-1.0/lib/a.c"), SourceState::Missing);
    assert_eq!(state("ROOT", "/build/../../lib/b.c"), SourceState::Missing);
    assert!("".parse::<SourceRoot>().is_err() && "/build=".parse::<SourceRoot>().is_err());
}

#[test]
fn parts_for_rare_cases_belong_to_their_function() {
    assert!(is_cold_part("f.cold", "f") && is_cold_part("f.cold.3", "f"));
    assert!(is_cold_part("ns::f(int) [clone .cold]", "ns::f(int)"));
    assert!(!is_cold_part("f.part.0", "f") && !is_cold_part("fg.cold", "f"));
}

#[test]
fn a_function_that_cannot_be_shown_makes_room_for_the_next_and_is_named() {
    let shown = |at: u32| if at >= 2 { Ok(at) } else { Err(format!("{at} has no code here")) };
    let about = |at: u32| format!("f{at} changed most");
    let why = "f0 changed most, and 0 has no code here".to_string();
    assert_eq!(first_shown(0..4, shown, about), Some(Ok((2, Some(why)))));
    assert_eq!(first_shown(2..4, shown, about), Some(Ok((2, None))));
    assert_eq!(first_shown(0..2, shown, about), Some(Err("0 has no code here".into())));
    assert_eq!(first_shown(0..0, shown, about), None);
}
