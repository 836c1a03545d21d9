//! Guests with roots and services of their own.

use crate::lab::{Lab, compile};
use crate::needs;
use std::fs;
use std::process::Command;

/// A service and its client, which also says what a root gave it.
const TALK: &str = r#"
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>
int main(int argc, char **argv) {
    struct sockaddr_in at = {AF_INET, htons(7000), {htonl(INADDR_LOOPBACK)}};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    char byte = 'x';
    if (!strcmp(argv[1], "serve")) {
        if (argc > 2 && !strcmp(argv[2], "dies")) { fprintf(stderr, "no licence\n"); return 3; }
        if (argc > 2 && !strcmp(argv[2], "never")) { printf("still loading\n"); fflush(stdout); pause(); }
        if (argc > 2 && !strcmp(argv[2], "deaf")) signal(SIGTERM, SIG_IGN);
        if (bind(fd, (void *)&at, sizeof at) || listen(fd, 5)) { perror("listen"); return 4; }
        if (argc > 2 && !strcmp(argv[2], "daemon") && fork()) return 0;
        for (;;) {
            int one = accept(fd, 0, 0);
            if (argc > 2 && !strcmp(argv[2], "falls")) { fprintf(stderr, "lost a page\n"); abort(); }
            while (read(one, &byte, 1) == 1) {
                for (volatile int i = 0; i < 10000; i++);
                if (write(one, &byte, 1) != 1) break;
            }
            close(one);
        }
    }
    struct utsname names;
    struct stat data;
    if (uname(&names) || strcmp(names.nodename, "opcost")) { printf("name %s\n", names.nodename); return 5; }
    if (stat("/etc/data", &data) || data.st_nlink != 2 || (data.st_mode & 07777) != 04751) { perror("/etc/data"); return 6; }
    if (stat("/opt/more", &data) == 0) printf("more\n");
    if (connect(fd, (void *)&at, sizeof at)) { perror("connect"); return 7; }
    int count = atoi(argv[2]);
    for (int i = 0; i < count; i++)
        if (write(fd, &byte, 1) != 1 || read(fd, &byte, 1) != 1) { perror("service"); return 8; }
    printf("%d requests completed\n", count);
    return 0;
}
"#;

/// A root with the program at /bin/talk, and the other arguments of a comparison.
fn root(lab: &Lab) -> Option<String> {
    let kernel = needs::kernel()?;
    if !needs::programs(&["cc", "tar"]) {
        return None;
    }
    let program = compile(lab, "talk", TALK, &["-static"]);
    let root = lab.path("root");
    for folder in ["bin", "etc", "tmp"] {
        fs::create_dir_all(root.join(folder)).unwrap();
    }
    fs::copy(program, root.join("bin/talk")).unwrap();
    fs::write(root.join("etc/data"), "data").unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o4751);
    fs::set_permissions(root.join("etc/data"), mode).unwrap();
    fs::hard_link(root.join("etc/data"), root.join("etc/other")).unwrap();
    Some(kernel)
}

#[test]
fn a_service_of_a_root_is_counted_with_its_client_and_a_tar_of_it_counts_the_same() {
    let lab = Lab::new();
    let Some(kernel) = root(&lab) else { return };
    let (folder, tar) = (lab.path("root"), lab.path("root.tar.gz"));
    let made = Command::new("tar").arg("-czf").arg(&tar).arg("-C").arg(&folder).arg(".").status();
    assert!(made.unwrap().success());
    let [folder, tar] = [&folder, &tar].map(|path| path.to_str().unwrap());
    let guest = ["--machine", "emulated", "--kernel", &kernel, "--pairs", "1", "--warmup", "0"];
    let service = ["--service", "talk serve daemon", "--ready", "port:7000"];
    let roots = ["--root", folder, "--root", tar, "--ops", "([0-9]+) requests completed"];
    let args = [&["compare", "--quiet", "--json", "-"], &guest[..], &service, &roots];
    let said = lab.output(&[&args.concat()[..], &["talk ask 20"]].concat());
    let json: serde_json::Value = serde_json::from_str(&said).unwrap();
    let metrics = json["opcost"]["metrics"].as_array().unwrap();
    let of = |name: &str, domain: &str| {
        let found = metrics.iter().find(|row| row["metric"] == name && row["domain"] == domain);
        let found = found.unwrap_or_else(|| panic!("{name} {domain} in {said}"));
        ["value_baseline", "value"].map(|side| found[side].as_f64().unwrap())
    };
    let [one, two] = of("instructions", "user");
    // The loop of the service is the most of what an operation is, and the client's is nothing.
    assert!((20_000.0..80_000.0).contains(&one) && one == two, "{one} {two}");
    assert!(said.contains(r#""symbol": "main""#), "{said}");
    let [one, two] = of("instructions", "kernel");
    assert!((one - two).abs() < one / 10.0, "{one} {two}");
}

#[test]
fn what_a_service_or_a_root_lacks_is_said_with_its_last_words() {
    let lab = Lab::new();
    let Some(kernel) = root(&lab) else { return };
    let root = lab.path("root").to_str().unwrap().to_string();
    let measure = |service: &str, command: &str, root: &str| {
        let guest = ["--machine", "emulated", "--kernel", &kernel, "-n", "1", "--warmup", "0"];
        let service = ["--service", service, "--ready", "port:7000", "--root", root];
        lab.run(&[&["measure", "--quiet"], &guest[..], &service, &[command]].concat())
    };
    let dies =
        ["'talk serve dies' ended with status 3 before it was ready (port:7000)", "no licence"];
    measure("talk serve dies", "talk ask 1", &root).expect(4).says(&dies);
    let never = ["'talk serve never' was not ready (port:7000) after 120 s", "still loading"];
    measure("talk serve never", "talk ask 1", &root).expect(4).says(&never);
    // The client fails, too; the service is why.
    let falls = ["the service was ended by signal 6 while the command ran", "lost a page"];
    measure("talk serve falls", "talk ask 1", &root).expect(4).says(&falls);
    // A service that does not hear is killed, and the figure stands.
    measure("talk serve deaf", "talk ask 1", &root).expect(0);
    let lacks = ["has no program 'walk' (PATH is /usr/local/sbin:", "install it there"];
    measure("walk", "talk ask 1", &root).expect(4).says(&lacks);
    measure("talk serve", "./none", &root).expect(4).says(&["no program './none' (below '/')"]);
    let damaged = lab.write("damaged.tar", "no tar");
    let damaged = damaged.to_str().unwrap();
    measure("talk serve", "talk ask 1", damaged).expect(4).says(&["it is no tar"]);
}
