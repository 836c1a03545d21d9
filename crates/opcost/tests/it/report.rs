//! The page for a browser: its contents, that it needs no other file, and that no text breaks out of it.

use crate::lab::{Lab, TINY};
use crate::made;
use crate::made::emulated::{self, Tree};
use crate::made::{key, plan, recording};
use opcost_analysis::comparison::compare;
use opcost_analysis::history::{Question, history};
use opcost_model::plan::{Plan, WorkPlan};
use opcost_model::recording::{PrivateNames, ProgramState, Recording};
use opcost_record::Reading;
use opcost_report::render::{Style, View, html};
use std::collections::BTreeSet;

/// The page of a recording, with a history if there are others.
fn page(recording: &Recording, others: &[Recording]) -> String {
    let (comparison, warnings) = compare(recording);
    let view =
        View { recording, comparison: &comparison, warnings: &warnings, style: &Style::plain() };
    let all: Vec<Recording> = others.iter().chain([recording]).cloned().collect();
    let history = history(all, &Question::default()).unwrap();
    html::page(&view, (!others.is_empty()).then_some(&history)).unwrap()
}

/// A recording in which time changes, faults do not, and a count is 0.
fn simple(pairs: u32) -> Recording {
    recording(plan(&["off", "on"], pairs), |slot| {
        let wobble = u64::from(slot.slot * 37 % 11);
        vec![
            Reading::plain(
                key("wall", "clock"),
                58_000 + 100 * wobble + 9000 * u64::from(slot.variant),
            ),
            Reading::plain(key("user-time", "rusage"), 10_000 + 1000 * wobble),
            Reading::plain(key("minor-faults", "rusage"), 56),
            Reading::plain(key("major-faults", "rusage"), 0),
        ]
    })
}

/// A recording of an emulated machine, with a profile.
fn profiled() -> Recording {
    emulated::recording(emulated::plan(&["off", "on"], 16), 7, |slot| {
        let (block, variant) = (u64::from(slot.block.unwrap_or(0)), u64::from(slot.variant));
        let mut tree = Tree::default();
        let main = tree.add(None, "<script>main", "/bin/<b>program", 1, 7000);
        tree.add(main, "grows & grows", "/lib/\"lib\".so", 1000, 31_000 + 3300 * variant + block);
        (tree.grown(), vec![])
    })
}

/// The tags of a page, without those that end an element.
fn tags(page: &str) -> Vec<&str> {
    let mut rest = page;
    let mut tags = Vec::new();
    while let Some((_, after)) = rest.split_once('<') {
        let (tag, behind) = after.split_once('>').expect("a tag has an end");
        if !tag.starts_with('/') {
            tags.push(tag);
        }
        // Text in a style sheet or a script is no tag.
        rest = match tag {
            "style" | "script" => behind.split_once(&format!("</{tag}>")).unwrap().1,
            _ => behind,
        };
    }
    tags
}

/// The value of an attribute of a tag.
fn attribute<'a>(tag: &'a str, name: &str) -> Option<&'a str> {
    let (_, value) = tag.split_once(&format!(" {name}=\""))?;
    Some(value.split_once('"').unwrap().0)
}

/// The script of a page, which its policy must name.
fn script(page: &str) -> Option<&str> {
    let (_, rest) = page.split_once("<script>")?;
    let script = rest.split_once("</script>").unwrap().0;
    assert_eq!(page.matches("<script").count(), 1);
    Some(script)
}

/// Asserts the rules for every page: nothing from elsewhere, no script but opcost's own and only
/// with flame graphs, everything named, numbers finite.
fn check(page: &str) {
    let tags = tags(page);
    let ours_runs = include_str!("../../../opcost-report/src/render/html/flame.js");
    assert_eq!(script(page), page.contains("opcost-flame").then_some(ours_runs));
    assert_eq!(page.contains("script-src 'sha256-"), page.contains("opcost-flame"));
    assert!(!page.contains("script-src 'unsafe-inline'"), "any script may run");
    let ours = [
        "!DOCTYPE",
        "html",
        "head",
        "meta",
        "title",
        "style",
        "script",
        "body",
        "a",
        "header",
        "h1",
        "h2",
        "h3",
        "h4",
        "p",
        "div",
        "strong",
        "nav",
        "ul",
        "li",
        "main",
        "section",
        "footer",
        "code",
        "pre",
        "dl",
        "dt",
        "dd",
        "span",
        "table",
        "caption",
        "thead",
        "tbody",
        "tr",
        "th",
        "td",
        "small",
        "figure",
        "figcaption",
        "br",
        "svg",
        "desc",
        "text",
        "path",
        "rect",
        "circle",
        "g",
        "defs",
        "details",
        "summary",
        "pattern",
    ];
    let mut ids = BTreeSet::new();
    for tag in &tags {
        let name = tag.split(' ').next().unwrap();
        assert!(ours.contains(&name), "<{tag}> is none of ours");
        // Text between quotation marks is a value; values have no quotation marks.
        let outside: String = tag.split('"').step_by(2).collect();
        for forbidden in [" on", " src=", " style="] {
            assert!(!outside.contains(forbidden), "<{tag}> has {forbidden}");
        }
        if let Some(link) = attribute(tag, "href") {
            assert!(link.starts_with('#'), "<{tag}> leads elsewhere");
        }
        if let Some(id) = attribute(tag, "id") {
            assert!(ids.insert(id), "{id} is there twice");
        }
        if name == "th" {
            assert!(tag.contains(" scope="), "<{tag}> does not say what it is the heading of");
        }
        for number in ["NaN", "inf"] {
            let drawn = ["path", "rect", "circle", "text", "svg"].contains(&name);
            assert!(!(drawn && tag.contains(number)), "<{tag}> is no drawing");
        }
    }
    let count = |name: &str| tags.iter().filter(|tag| tag.split(' ').next() == Some(name)).count();
    assert_eq!(count("table"), count("caption"), "a table has no name");
    for tag in &tags {
        let named = attribute(tag, "aria-labelledby").into_iter().flat_map(|ids| ids.split(' '));
        let linked = attribute(tag, "href").map(|link| &link[1..]);
        for id in named.chain(linked) {
            assert!(ids.contains(id), "<{tag}> names {id}, which is not there");
        }
        if tag.starts_with("svg") {
            assert_eq!(attribute(tag, "role"), Some("img"));
        }
    }
    assert_eq!(count("desc"), count("svg"));
    let frames = tags.iter().filter(|tag| tag.starts_with("g class=\"f\"")).count();
    assert_eq!(count("title"), count("svg") + frames + 1);
    for fetched in ["url(", "@import", "http://", "https://"] {
        let sheet = page.split_once("<style>").unwrap().1.split_once("</style>").unwrap().0;
        assert!(!sheet.contains(fetched), "the style sheet has {fetched}");
    }
    assert!(page.contains("default-src 'none'"));
}

#[test]
fn a_page_has_answer_tables_plots_ledger_machine_and_experiment() {
    let page = page(&simple(22), &[]);
    check(&page);
    for part in [
        "on against off: wall +",
        "Real</dt>",
        "0 in every run (1)",
        "wall of on against off, block by block",
        "wall/op in the order of running",
        "Distribution of wall/op",
        "Comparable by",
        "A CPU",
        "opcost run experiment.toml",
        "seed = 1",
    ] {
        let found = page.contains(part) || page.contains(&part.replace("</dt>", " (1)</dt>"));
        assert!(found, "{part} is missing");
    }
    assert!(!page.contains("id=\"plot-history\""), "one recording has no history");
}

#[test]
fn the_experiment_on_the_page_makes_the_same_plan() {
    let recording = simple(22);
    let page = page(&recording, &[]);
    let (_, toml) = page.split_once("<pre><code>name = ").expect("the experiment's text");
    let toml = format!("name = {}", toml.split_once("</code>").unwrap().0);
    let toml = toml
        .replace("&quot;", "\"")
        .replace("&lt;", "<")
        .replace("&gt;", ">")
        .replace("&amp;", "&");
    let experiment: opcost_model::experiment::Experiment = toml::from_str(&toml).unwrap();
    let again = opcost_lab::resolve::resolve(&experiment, &made::NoCounters).unwrap();
    // The text names the metric that decided, so the warm-up runs choose none.
    assert_eq!(again, Plan { primary_if_busy: None, ..recording.plan });
}

#[test]
fn functions_and_their_callers_are_named_and_escaped() {
    let page = page(&profiled(), &[]);
    check(&page);
    assert!(page.contains("instructions/op come from"), "no functions");
    assert!(page.contains("grows &amp; grows (&quot;lib&quot;.so)"), "no function of a library");
    assert!(page.contains("&lt;script&gt;main"), "no caller");
    let (_, table) = page.split_once("instructions/op come from</caption>").unwrap();
    let row = table.split_once("grows &amp; grows").unwrap().1.split_once("</tr>").unwrap().0;
    let labels: Vec<&str> =
        row.split("data-label=\"").skip(1).map(|rest| rest.split('"').next().unwrap()).collect();
    assert_eq!(
        labels,
        ["off", "on", "change", "more often or dearer", "called from"],
        "both sides: {row}"
    );
}

#[test]
fn the_script_s_hash_is_what_browsers_compute() {
    let page = page(&profiled(), &[]);
    let (_, rest) = page.split_once("script-src 'sha256-").unwrap();
    let named = rest.split_once('\'').unwrap().0;
    let mut openssl = std::process::Command::new("sh")
        .args(["-c", "openssl dgst -sha256 -binary | openssl base64 -A"])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    use std::io::Write as _;
    openssl.stdin.take().unwrap().write_all(script(&page).unwrap().as_bytes()).unwrap();
    let output = openssl.wait_with_output().unwrap();
    if output.stdout.is_empty() {
        crate::skip::skip!("no openssl to compute the hash with");
        return;
    }
    assert_eq!(named, String::from_utf8(output.stdout).unwrap());
}

#[test]
fn programs_are_a_table_with_each_once() {
    let mut made = simple(22);
    let program = |name: &str| ProgramState {
        path: name.into(),
        length_bytes: 1_234_567,
        sha256: "0123abcd".into(),
        sizes: None,
    };
    made.machine[0].programs = vec![program("/bin/one"), program("/bin/one"), program("/bin/two")];
    let page = page(&made, &[]);
    check(&page);
    let (_, table) = page.split_once("<caption>Programs</caption>").expect("a table of programs");
    let table = table.split_once("</table>").unwrap().0;
    assert_eq!(table.matches("/bin/one").count(), 1, "{table}");
    assert_eq!(table.matches("/bin/two").count(), 1, "{table}");
    assert!(table.contains(">1,234,567</td>") && table.contains("0123abcd"), "{table}");
    assert!(!page.contains("length bytes: "), "programs are a list, too");
}

#[test]
fn flame_graphs_are_in_the_page_and_each_refers_to_itself() {
    let whole = page(&profiled(), &[]);
    check(&whole);
    let (_, section) = whole.split_once("<section id=\"flames\"").expect("a section");
    let section = section.split_once("</section>").unwrap().0;
    assert!(section.contains("class=\"opcost-flame\"") && section.contains("on against off"));
    assert!(section.contains("&lt;script&gt;main"), "a frame's name is escaped");
    assert!(section.contains("<g class=\"panel\" data-name=\"off\">"), "no panel to zoom in");
    assert!(section.contains("<g class=\"f\" data-n=\"all\">"), "no frame has a number");
    let three = emulated::recording(emulated::plan(&["off", "on", "cached"], 16), 7, |slot| {
        let mut tree = Tree::default();
        tree.add(None, "main", "/bin/program", 1, 7000 + 100 * u64::from(slot.variant));
        (tree.grown(), vec![])
    });
    let text = page(&three, &[]);
    check(&text);
    for graph in 0..2 {
        assert!(text.contains(&format!("<pattern id=\"opcost-gone-{graph}\"")), "graph {graph}");
        assert!(text.contains(&format!("url(#opcost-gone-{graph})")), "graph {graph}");
    }
    assert!(!page(&simple(4), &[]).contains("opcost-flame"), "no profiles, no graph");
    let alone = emulated::recording(emulated::plan(&["off"], 6), 7, |_| {
        let mut tree = Tree::default();
        tree.add(None, "main", "/bin/program", 1, 7000);
        (tree.grown(), vec![])
    });
    let text = page(&alone, &[]);
    check(&text);
    assert!(text.contains("<g class=\"panel\" data-name=\"off\">"), "a single variant has its own");
}

#[test]
fn nothing_that_a_user_wrote_becomes_markup() {
    let hostile = "</title></style><script>alert(1)</script><img src=x onerror=alert(1)>'\"&";
    let mut made = simple(22);
    made.id = hostile.into();
    made.plan.experiment = hostile.into();
    made.plan.question = Some(hostile.into());
    made.plan.allow = vec![hostile.into()];
    made.plan.hooks.setup = Some(hostile.into());
    made.plan.hooks.cwd = Some(hostile.into());
    for (number, variant) in made.plan.variants.iter_mut().enumerate() {
        variant.name = format!("{hostile}{number}");
        variant.cwd = Some(hostile.into());
        variant.env = vec![(hostile.into(), hostile.into())];
        variant.prepare = Some(hostile.into());
        variant.work = WorkPlan::Command {
            program: hostile.into(),
            argv: vec![hostile.into()],
            line: hostile.into(),
        };
    }
    for unavailable in &mut made.plan.unavailable {
        unavailable.key.name = hostile.into();
        unavailable.reason = hostile.into();
    }
    for invariant in made.records.iter_mut().flat_map(|record| &mut record.invariants) {
        invariant.name = hostile.into();
        invariant.value = hostile.into();
    }
    let state = &mut made.machine[0];
    state.kernel_release = Some(hostile.into());
    state.mitigations.insert(hostile.into(), hostile.into());
    state.programs = vec![ProgramState {
        path: hostile.into(),
        length_bytes: 1,
        sha256: hostile.into(),
        sizes: None,
    }];
    state.kernels = vec![emulated::kernel(0, hostile, &[])];
    let earlier = Recording { id: "earlier".into(), ..made.clone() };
    let page = page(&made, &[earlier]);
    check(&page);
    assert!(page.contains("&lt;script&gt;alert(1)&lt;/script&gt;"), "the text itself is shown");
}

#[test]
fn few_runs_equal_runs_failed_runs_and_none_still_have_a_page() {
    check(&page(&simple(2), &[]));
    let mut equal = simple(4);
    for sample in equal.records.iter_mut().flat_map(|record| &mut record.samples) {
        sample.value = 1;
    }
    check(&page(&equal, &[]));
    let mut zero = simple(6);
    for sample in zero.records.iter_mut().flat_map(|record| &mut record.samples) {
        sample.value *= u64::from(sample.metric == 0 && sample.value > 66_000);
    }
    check(&page(&zero, &[]));
    let mut huge = simple(6);
    for sample in huge.records.iter_mut().flat_map(|record| &mut record.samples) {
        sample.value = u64::MAX - sample.value;
    }
    check(&page(&huge, &[]));
    let mut cut = simple(6);
    cut.records.truncate(3);
    check(&page(&cut, &[]));
    let mut none = simple(6);
    none.records.clear();
    none.machine.clear();
    let (comparison, warnings) = compare(&none);
    let style = Style::plain();
    let view =
        View { recording: &none, comparison: &comparison, warnings: &warnings, style: &style };
    let text = html::page(&view, None).unwrap();
    check(&text);
    assert!(!text.contains("<svg"), "there is nothing to plot");
    assert!(text.contains("The state of the machine was not recorded."));
}

#[test]
fn of_very_many_runs_some_are_drawn_and_the_page_says_so() {
    let page = page(&simple(4002), &[]);
    check(&page);
    assert!(page.contains("One run of 3 is drawn."), "4002 runs of a variant");
    assert!(page.contains("One block of 2 is drawn."), "2001 blocks");
    assert!(page.len() < 400_000, "{} bytes", page.len());
}

#[test]
fn a_refused_comparison_says_so_first() {
    let mut refused = simple(6);
    for record in refused.records.iter_mut().filter(|record| record.variant == 1) {
        record.invariants[0].value = "ffff".into();
    }
    let page = page(&refused, &[]);
    check(&page);
    let verdict = page.find("not comparable: ").expect("the refusal");
    assert!(verdict < page.find("<main").unwrap());
    assert!(!page.contains("class=\"worse\"><strong"), "nothing is said to be worse");
    assert!(!page.contains("block by block"), "differences that mean nothing are not shown");
    let table =
        page.split_once("<caption>Metrics of ").unwrap().1.split_once("</table>").unwrap().0;
    let changes = table.split("data-label=\"change\">").skip(1);
    assert!(changes.count() > 1 && !table.contains("data-label=\"change\">+"), "{table}");
}

#[test]
fn three_variants_have_a_table_each_and_one_legend() {
    let made = recording(plan(&["off", "on", "cached"], 6), |slot| {
        let value = 58_000 + 50 * u64::from(slot.slot * 37 % 11) + 900 * u64::from(slot.variant);
        vec![Reading::plain(key("wall", "clock"), value)]
    });
    let page = page(&made, &[]);
    check(&page);
    assert_eq!(page.matches("<caption>Metrics of ").count(), 2);
    assert!(page.contains("<h3>cached against off</h3>"));
    for symbol in ["●", "■", "✕"] {
        assert!(page.contains(symbol), "{symbol}");
    }
}

/// Where sections begin, by their identifiers.
fn order(page: &str, ids: &[&str]) -> Vec<Option<usize>> {
    ids.iter().map(|id| page.find(&format!("<section id=\"{id}\""))).collect()
}

#[test]
fn an_exact_comparison_leads_with_where_the_change_comes_from() {
    let exact = page(&profiled(), &[]);
    let places = order(&exact, &["origin", "flames", "metrics"]);
    assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{places:?}");
    // The points lie on one another, so there is no plot of them.
    assert_eq!(order(&exact, &["plots"]), [None]);
    let timed = page(&simple(22), &[]);
    let places = order(&timed, &["metrics", "plots", "comparability"]);
    assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{places:?}");
}

#[test]
fn plots_are_shown_where_points_differ_and_all_have_texts_of_one_size() {
    let made = |wobble: u64| {
        recording(plan(&["off", "on"], 22), |slot| {
            let odd = wobble * u64::from(slot.slot * 37 % 11);
            let wall = 58_000 + odd + 9000 * u64::from(slot.variant);
            let user = 10_000 + 1000 * u64::from(slot.slot * 37 % 11);
            let key = |name, source| key(name, source);
            vec![
                Reading::plain(key("wall", "clock"), wall),
                Reading::plain(key("user-time", "rusage"), user),
            ]
        })
    };
    let differing = page(&made(100), &[]);
    assert!(differing.contains("Distribution of wall/op"));
    let alike = page(&made(1), &[]);
    check(&alike);
    assert!(
        !alike.contains("Distribution of wall/op") && !alike.contains("in the order of running")
    );
    assert!(alike.contains("user-time of on against off, block by block"), "its points differ");
    let widths = differing.split("<svg viewBox=\"0 0 ").skip(1);
    let widths: BTreeSet<&str> = widths.map(|rest| rest.split(' ').next().unwrap()).collect();
    assert_eq!(widths.len(), 1, "{widths:?}");
}

#[test]
fn doubts_stand_beside_the_verdict() {
    let mut doubtful = simple(22);
    doubtful.records.pop();
    let page = page(&doubtful, &[]);
    check(&page);
    let (_, answer) = page.split_once("<div class=\"verdict\">").unwrap();
    let answer = answer.split_once("</div>").unwrap().0;
    assert!(answer.contains("Doubtful (<a href=\"#comparability\">runs</a>): "), "{answer}");
    // Rules that hold are folded away; the doubtful rule is not.
    let (_, ledger) = page.split_once("Rules that something speaks against</caption>").unwrap();
    let odd = ledger.split_once("<details>").unwrap().0;
    assert!(odd.contains(">runs</th>") && !odd.contains(">invariants</th>"), "{odd}");
}

#[test]
fn what_tells_of_the_machine_is_folded_and_left_out_of_pages_for_others() {
    let mut made = simple(22);
    let state = &mut made.machine[0];
    state.boot_parameters = Some("root=/dev/secret quiet".into());
    state.cpu_flags = Some("fpu vme de".into());
    state.boot_id = Some("0123-4567".into());
    let program = "/home/somebody/bin/tool".into();
    state.programs =
        vec![ProgramState { path: program, length_bytes: 7, sha256: "abcd".into(), sizes: None }];
    for variant in &mut made.plan.variants {
        variant.cwd = Some("/home/somebody/work".into());
    }
    let own = page(&made, &[]);
    check(&own);
    let (_, folded) = own.split_once("<summary>More of the machine: ").unwrap();
    for text in ["root=/dev/secret quiet", "fpu vme de", "0123-4567"] {
        assert_eq!((own.matches(text).count(), folded.matches(text).count()), (1, 1), "{text}");
    }
    let mut names = PrivateNames::default();
    names.learn(&made).unwrap();
    let shared = page(&names.replacer().recording(&made).unwrap(), &[]);
    check(&shared);
    for text in ["/dev/secret", "fpu vme", "0123-4567", "somebody"] {
        assert!(!shared.contains(text), "{text} is on the page for others");
    }
    assert!(shared.contains("/bin/tool</code>") && shared.contains("A CPU"), "the rest is there");
}

#[test]
fn recordings_of_the_same_experiment_make_a_history() {
    let at = |day: u64| Recording {
        id: format!("recording-{day}"),
        created_unix_ns: 1_700_000_000_000_000_000 + day * 86_400_000_000_000,
        ..simple(6)
    };
    let page = page(&at(3), &[at(1), at(2)]);
    check(&page);
    assert!(page.contains("wall/op of off over 3 recordings"));
    assert_eq!(page.matches("<circle").count(), 1, "this recording is marked");
    assert!(page.contains("opcost history made"));
}

#[test]
fn the_command_writes_a_file_or_standard_output() {
    let lab = Lab::new();
    lab.output(&TINY);
    let printed = lab.output(&["report", "last", "--html", "page.html"]);
    assert_eq!(printed, "");
    let page = lab.read("page.html");
    check(&page);
    assert_eq!(lab.output(&["report", "--html", "-"]), page);
    assert_eq!(lab.output(&["show", "--format", "html"]), page);
    lab.output(&TINY);
    let both = lab.output(&["report", "--html", "-"]);
    check(&both);
    assert!(both.contains("over 2 recordings"));
}

#[test]
fn imported_figures_have_what_they_have() {
    let lab = Lab::new();
    let runs = [
        "old,wall,10,ms",
        "old,wall,11,ms",
        "old,wall,12,ms",
        "new,wall,20,ms",
        "new,wall,21,ms",
        "new,wall,23,ms",
    ];
    lab.write("the <runs>.csv", format!("variant,metric,value,unit\n{}\n", runs.join("\n")));
    lab.output(&["import", "the <runs>.csv"]);
    let page = lab.output(&["report", "--html", "-"]);
    check(&page);
    for part in [
        "imported from the &lt;runs&gt;.csv",
        "opcost import 'the &lt;runs&gt;.csv'",
        "wall in the order of the file",
        "whether the variants' runs alternated is unknown",
    ] {
        assert!(page.contains(part), "{part} is missing");
    }
    assert!(!page.contains("block by block"), "there are no blocks");
    lab.write("means.csv", "variant,metric,mean,sd,n,unit\na,wall,10,1,5,ms\nb,wall,12,1,5,ms\n");
    lab.output(&["import", "means.csv"]);
    let page = lab.output(&["report", "--html", "-"]);
    check(&page);
    assert!(!page.contains("<svg"), "a mean has no runs to plot");
}

#[test]
fn bad_arguments_are_named() {
    let lab = Lab::new();
    lab.output(&TINY);
    for (arguments, status, why) in [
        (
            &["report", "--html", "no/page.html"][..],
            2,
            "--html no/page.html: there is no folder 'no'",
        ),
        (&["report", "last"], 2, "--html <FILE>"),
        (&["report", "zzz", "--html", "-"], 2, "zzz"),
        (&["report", "--html", "-", "--allow", "luck"], 2, "luck"),
        (&["report", "--html", "."], 2, "it is a folder; name a file"),
    ] {
        let ended = lab.run(arguments);
        assert_eq!(ended.status, Some(status), "{arguments:?}: {}", ended.stderr);
        assert!(ended.stderr.contains(why), "{arguments:?}: {}", ended.stderr);
    }
}
