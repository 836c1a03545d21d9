//! The page for a browser in a browser: its text is legible, it fits, and it prints.

use crate::made::{key, plan, recording};
use opcost_analysis::comparison::compare;
use opcost_record::Reading;
use opcost_report::render::{Style, View, html};
use std::path::Path;
use std::process::{Command, Stdio};

/// The page of a made-up recording with long names, in a folder of its own; a skip message and `None` without a browser.
fn folder() -> Option<tempfile::TempDir> {
    let found = Command::new("chromium").arg("--version").stderr(Stdio::null()).output();
    if !found.is_ok_and(|output| output.status.success()) {
        crate::skip::skip!("no chromium here (Debian package chromium)");
        return None;
    }
    let mut made = recording(plan(&["off", "on"], 22), |slot| {
        let wobble = u64::from(slot.slot * 37 % 11);
        let value = 58_000 + 100 * wobble + 9000 * u64::from(slot.variant);
        vec![
            Reading::plain(key("wall", "clock"), value),
            Reading::plain(key("user-time", "rusage"), 10_000 + 1000 * wobble),
            Reading::plain(key("cache-misses", "perf_event"), 7700 + wobble),
            Reading::plain(key("minor-faults", "rusage"), 56),
        ]
    });
    made.plan.variants[1].name = "a_variant_with_a_name_that_".repeat(4);
    made.plan.question = Some("Is it slower?<script>document.title='broken'</script>".into());
    let (comparison, warnings) = compare(&made);
    let style = Style::plain();
    let view =
        View { recording: &made, comparison: &comparison, warnings: &warnings, style: &style };
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("page.html"), html::page(&view, None).unwrap()).unwrap();
    Some(folder)
}

/// Runs the browser on a file of the folder, and returns its output.
fn browse(folder: &Path, arguments: &[&str], file: &str) -> String {
    let profile = folder.join("profile");
    let output = Command::new("chromium")
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"])
        .arg("--allow-file-access-from-files")
        .arg(format!("--user-data-dir={}", profile.display()))
        .args(arguments)
        .arg(format!("file://{}", folder.join(file).display()))
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "chromium {arguments:?}: {errors}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn the_page_reads_fits_and_prints() {
    let Some(folder) = folder() else { return };
    let folder = folder.path();
    // The page itself runs no script; the script of this outer page inspects it.
    let around = "<!doctype html><body><script>
        const look = width => new Promise(done => {
            const frame = document.createElement('iframe');
            frame.width = width; frame.height = 800; frame.src = 'page.html';
            frame.onload = () => {
                const page = frame.contentDocument;
                const root = page.documentElement;
                const small = [...page.querySelectorAll('svg text')].map(text =>
                    parseFloat(getComputedStyle(text).fontSize) * text.ownerSVGElement.getScreenCTM().a);
                done(`width ${width}: ${root.scrollWidth <= root.clientWidth ? 'fits' : 'is ' + root.scrollWidth}, `
                    + `plots ${page.querySelectorAll('svg').length}, `
                    + `text ${Math.min(...small) >= 8 ? 'legible' : Math.min(...small)}, `
                    + `title ${page.title}, reads ${page.body.innerText}`);
            };
            document.body.append(frame);
        });
        (async () => {
            const pre = document.createElement('pre');
            for (const width of [320, 360, 768, 880, 910, 1200]) pre.append(await look(width) + '\\n');
            document.body.replaceChildren(pre);
        })();
    </script>";
    std::fs::write(folder.join("around.html"), around).unwrap();
    let seen = browse(folder, &["--virtual-time-budget=20000", "--dump-dom"], "around.html");
    for width in [320, 360, 768, 880, 910, 1200] {
        let at = format!("width {width}: fits, plots ");
        let looks: Vec<&str> = seen.lines().filter(|line| line.contains("width ")).collect();
        assert!(seen.contains(&at), "{looks:#?}");
    }
    assert_eq!(seen.matches("text legible").count(), 6, "a plot's text is too small");
    assert_eq!(seen.matches("title Is it slower?&lt;script&gt;").count(), 6, "a script has run");
    for text in [
        "wall +",
        "real",
        "Comparable by",
        "opcost run experiment.toml",
        "wall/op in the order of running",
    ] {
        assert!(seen.contains(text), "{text} cannot be read");
    }
    browse(
        folder,
        &[&format!("--print-to-pdf={}", folder.join("page.pdf").display())],
        "page.html",
    );
    let pdf = std::fs::read(folder.join("page.pdf")).unwrap();
    assert!(pdf.starts_with(b"%PDF-") && pdf.len() > 10_000, "{} bytes of PDF", pdf.len());
}

/// A flame graph that is a file of its own: a click on a frame hides what is not in it, and the search marks what it finds.
#[test]
fn a_flame_graph_alone_zooms_and_searches() {
    let found = Command::new("chromium").arg("--version").stderr(Stdio::null()).output();
    if !found.is_ok_and(|output| output.status.success()) {
        return crate::skip::skip!("no chromium here (Debian package chromium)");
    }
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    std::fs::write(folder.join("stacks"), "main;left;deep 30\nmain;right 60\nother 10\n").unwrap();
    let drawn = Command::new(env!("CARGO_BIN_EXE_opcost"))
        .args(["profile", "-i", "stacks", "--export-flamegraph", "graph.svg"])
        .current_dir(folder)
        .output()
        .unwrap();
    assert!(drawn.status.success(), "{}", String::from_utf8_lossy(&drawn.stderr));
    let around = "<!doctype html><body><iframe src='graph.svg' width='1250' height='300'></iframe><script>
        document.querySelector('iframe').onload = event => {
            const graph = event.target.contentDocument;
            const frames = [...graph.querySelectorAll('.f')];
            const named = name => frames.find(frame => frame.querySelector('title').textContent.startsWith(name));
            const shown = () => frames.filter(frame => !frame.hasAttribute('hidden'))
                .map(frame => frame.querySelector('title').textContent.split('\\n')[0]).sort().join(' ');
            const width = name => Math.round(named(name).querySelector('rect').getAttribute('width'));
            const click = name => named(name).querySelector('rect').dispatchEvent(new MouseEvent('click', {bubbles: true}));
            const lines = [`all ${shown()}`];
            click('left');
            lines.push(`zoomed ${shown()}, deep ${width('deep')}, main ${width('main')}`);
            graph.dispatchEvent(new KeyboardEvent('keydown', {key: 'Escape'}));
            lines.push(`again ${shown()}`);
            const search = graph.querySelector('input');
            search.value = 'righ';
            search.dispatchEvent(new Event('input'));
            lines.push(`found ${graph.querySelector('output').textContent}`);
            document.body.textContent = lines.join('; ');
        };
    </script>";
    std::fs::write(folder.join("around.html"), around).unwrap();
    let seen = browse(folder, &["--virtual-time-budget=20000", "--dump-dom"], "around.html");
    for text in [
        "all deep everything left main other right",
        "zoomed deep everything left main, deep 1180, main 1180",
        "again deep everything left main other right",
        "found 1 frame, 60.00 % of stacks",
    ] {
        assert!(seen.contains(text), "no '{text}' in {seen}");
    }
}
