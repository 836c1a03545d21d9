//! Debug files that debuginfod's server has, judged by a server of this machine.

use crate::lab::{Lab, compile};
use crate::needs;
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};

const PROGRAM: &str = "static __attribute__((noinline)) long work(long n)
{ long s = 0; for (volatile long i = 0; i < n; i++) s += i; return s; }
int main(void) { return work(100000) == 7; }
";

/// A server that ends with the test.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts a server of a folder's files, and waits until it has read them.
fn serve(folder: &Path) -> (Server, String) {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port().to_string();
    let mut child = Command::new("debuginfod")
        .args(["-v", "-d", ":memory:", "-p", &port, "-F"])
        .arg(folder)
        .env_remove("DEBUGINFOD_URLS")
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut printed = BufReader::new(child.stderr.take().unwrap()).lines();
    let server = Server(child);
    let done = |line: &std::io::Result<String>| line.as_ref().unwrap().contains("groomed database");
    assert!(printed.any(|line| done(&line)), "the server has read the folder");
    // The server must not fill the pipe.
    std::thread::spawn(move || printed.for_each(drop));
    (server, format!("http://127.0.0.1:{port}"))
}

#[test]
fn a_server_s_debug_files_give_names_if_the_environment_names_it() {
    let tools = ["cc", "objcopy", "strip", "debuginfod", "debuginfod-find"];
    if !needs::programs(&tools) {
        return;
    }
    let lab = Lab::new();
    std::fs::create_dir(lab.path("served")).unwrap();
    compile(&lab, "program", PROGRAM, &["-g", "-O1", "-Wl,--build-id"]);
    for line in ["objcopy --only-keep-debug program served/program.debug", "strip program"] {
        let words: Vec<&str> = line.split(' ').collect();
        let made = Command::new(words[0]).args(&words[1..]).current_dir(lab.dir()).status();
        assert!(made.unwrap().success(), "{line}");
    }
    let (server, url) = serve(&lab.path("served"));
    let size = |urls: Option<&str>, args: &[&str]| {
        let mut command = lab.command(&[&["size", "program"], args].concat());
        command.env("DEBUGINFOD_CACHE_PATH", lab.path("kept")).env_remove("DEBUGINFOD_URLS");
        if let Some(urls) = urls {
            command.env("DEBUGINFOD_URLS", urls);
        }
        let output = command.output().unwrap();
        assert!(output.status.success());
        [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap())
    };
    let [nameless, said] = size(None, &[]);
    assert!(nameless.contains("(stripped)") && !nameless.contains("work"), "{nameless}");
    assert_eq!(said, "", "without the variable nobody is asked");
    assert!(!lab.path("kept").exists());
    let [named, said] = size(Some(&url), &[]);
    assert!(named.contains("work") && named.contains("its symbols are in"), "{named}");
    assert_eq!(
        said,
        format!("opcost: asking {url} for the debug file of program (DEBUGINFOD_URLS)\n")
    );
    // What was fetched is kept: the server is not asked again, and need not be there.
    drop(server);
    assert_eq!(size(Some(&url), &[]), [named.clone(), String::new()]);
    assert_eq!(size(None, &[]), [named, String::new()]);
    let json: serde_json::Value = serde_json::from_str(&size(None, &["--json"])[0]).unwrap();
    assert_eq!(json["names"], "full", "{json}");
    // The same names in the emulated machine's counts.
    if needs::counter().is_none() {
        return;
    }
    let args = ["compare", "./program", "./program x", "--kernel", "none", "-n", "1", "--warmup=0"];
    let mut command = lab.command(&[&args[..], &["--machine", "emulated", "--json"]].concat());
    command.env("DEBUGINFOD_CACHE_PATH", lab.path("kept")).env_remove("DEBUGINFOD_URLS");
    let output = command.output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{said}");
    let document: serde_json::Value = serde_json::from_str(&text).unwrap();
    let functions = document["opcost"]["functions"].to_string();
    assert!(functions.contains("\"work\""), "{functions}");
}
