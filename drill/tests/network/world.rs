//! Hosts in network namespaces, joined by a router that can be told what to do to each of them.
//!
//! ```text
//! server 10.77.0.2 ── router ── 10.77.1.2 first agent's host
//!                       └────── 10.77.2.2 second
//! ```

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write as _;
use std::panic::resume_unwind;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

use fleetbeat_drill::skip::skip;
use nix::sched::{CloneFlags, setns};

/// Tells apart the worlds of one process; the process's id tells apart those of others.
static WORLDS: AtomicU32 = AtomicU32::new(0);

/// The server's host.
pub(crate) const SERVER: &str = "10.77.0.2";

pub(crate) struct World {
    prefix: String,
    /// By name, with the number of its network.
    hosts: Vec<&'static str>,
    /// Rules of the router about each host's packets.
    rules: BTreeMap<&'static str, Vec<String>>,
}

/// Builds a server's host, a router and a host for each name, and runs the test inside the server's host:
/// whatever it starts or connects is there, unless it says otherwise. Skips the test where the kernel or
/// this user's rights do not allow that.
pub(crate) fn on_a_network(hosts: &[&'static str], test: impl AsyncFnOnce(&mut World) + Send) {
    if let Some(missing) = missing() {
        return skip(&missing);
    }
    thread::scope(|scope| {
        // What enters a namespace is a thread, so the test gets one of its own.
        let inside = scope.spawn(|| {
            let mut world = World::build(hosts);
            World::enter_namespace(&world.namespace("server"));
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap();
            runtime.block_on(test(&mut world));
        });
        if let Err(panic) = inside.join() {
            resume_unwind(panic);
        }
    });
}

impl World {
    fn build(hosts: &[&'static str]) -> Self {
        let number = WORLDS.fetch_add(1, Ordering::Relaxed);
        let world = Self {
            prefix: format!("fb{}x{number}", std::process::id()),
            hosts: [&["server"], hosts].concat(),
            rules: BTreeMap::new(),
        };
        ip(&["netns", "add", &world.router()]);
        let forward = "echo 1 > /proc/sys/net/ipv4/ip_forward";
        ip(&["netns", "exec", &world.router(), "sh", "-c", forward]);
        for (number, host) in world.hosts.iter().enumerate() {
            world.join(host, number);
        }
        world
    }

    /// Adds a host with its link to the router.
    fn join(&self, host: &str, number: usize) {
        let (namespace, router) = (self.namespace(host), self.router());
        ip(&["netns", "add", &namespace]);
        ip(&["-n", &namespace, "link", "set", "lo", "up"]);
        let link = [
            "link", "add", "name", host, "type", "veth", "peer", "name", "eth0",
        ];
        ip(&[&["-n", &router], &link[..], &["netns", &namespace]].concat());
        for network in ["77", "78"] {
            let gateway = format!("10.{network}.{number}.1/24");
            ip(&["-n", &router, "address", "add", &gateway, "dev", host]);
        }
        ip(&["-n", &router, "link", "set", "dev", host, "up"]);
        ip(&["-n", &namespace, "link", "set", "eth0", "up"]);
        self.take_address(host, "77");
    }

    fn take_address(&self, host: &str, network: &str) {
        let number = self.number(host);
        let namespace = self.namespace(host);
        let address = format!("10.{network}.{number}.2/24");
        ip(&["-n", &namespace, "address", "add", &address, "dev", "eth0"]);
        self.route(host, network);
    }

    fn route(&self, host: &str, network: &str) {
        let gateway = format!("10.{network}.{}.1", self.number(host));
        let namespace = self.namespace(host);
        ip(&[
            "-n", &namespace, "route", "replace", "default", "via", &gateway,
        ]);
    }

    fn number(&self, host: &str) -> usize {
        let found = self.hosts.iter().position(|known| *known == host);
        found.unwrap_or_else(|| panic!("this world has no host {host}"))
    }

    fn router(&self) -> String {
        self.namespace("router")
    }

    /// Name of a host's namespace.
    pub(crate) fn namespace(&self, host: &str) -> String {
        format!("{}-{host}", self.prefix)
    }

    /// Moves the calling thread, and what it starts, into a namespace.
    pub(crate) fn enter_namespace(name: &str) {
        let namespace = File::open(Path::new("/run/netns").join(name));
        setns(namespace.unwrap(), CloneFlags::CLONE_NEWNET).unwrap();
    }

    // ------------------------------------------------ faults

    /// The host's packets to the server vanish.
    pub(crate) fn cut_up(&mut self, host: &'static str) {
        self.rule(host, format!("iifname \"{host}\" counter drop"));
    }

    /// The server's packets to the host vanish.
    pub(crate) fn cut_down(&mut self, host: &'static str) {
        self.rule(host, format!("oifname \"{host}\" counter drop"));
    }

    pub(crate) fn cut(&mut self, host: &'static str) {
        self.cut_up(host);
        self.cut_down(host);
    }

    /// So many of a hundred packets vanish, each way, at random.
    pub(crate) fn lose(&mut self, host: &'static str, percent: u32) {
        for side in ["iifname", "oifname"] {
            let rule = format!("{side} \"{host}\" numgen random mod 100 < {percent} counter drop");
            self.rule(host, rule);
        }
    }

    /// The host has another address, and a gateway that goes with it; whatever belongs to the one before
    /// vanishes.
    pub(crate) fn change_address(&mut self, host: &'static str) {
        let before = format!("10.77.{}.2", self.number(host));
        self.rule(host, format!("ip saddr {before} counter drop"));
        self.rule(host, format!("ip daddr {before} counter drop"));
        let namespace = self.namespace(host);
        ip(&["-n", &namespace, "address", "flush", "dev", "eth0"]);
        self.take_address(host, "78");
    }

    /// Takes the interface down, which loses its routes.
    pub(crate) fn unplug(&mut self, host: &'static str) {
        ip(&["-n", &self.namespace(host), "link", "set", "eth0", "down"]);
    }

    pub(crate) fn plug(&mut self, host: &'static str) {
        ip(&["-n", &self.namespace(host), "link", "set", "eth0", "up"]);
        self.route(host, "77");
    }

    /// Bounds what comes down to the host; the queue before it holds up to three seconds.
    pub(crate) fn limit_down(&self, host: &str, rate: &str) {
        let bucket = ["rate", rate, "burst", "4kb", "latency", "3s"];
        self.tc(&[&["qdisc", "add", "dev", host, "root", "tbf"], &bucket[..]].concat());
    }

    /// Delay with jitter, and loss, on what comes down to the host, by the kernel's network emulator.
    pub(crate) fn emulate_down(&self, host: &str, what: &[&str]) {
        self.tc(&[&["qdisc", "add", "dev", host, "root", "netem"], what].concat());
    }

    pub(crate) fn heal(&mut self, host: &'static str) {
        self.rules.remove(host);
        self.apply_rules();
    }

    fn rule(&mut self, host: &'static str, rule: String) {
        self.rules.entry(host).or_default().push(rule);
        self.apply_rules();
    }

    /// Replaces all rules at once.
    fn apply_rules(&self) {
        let rules: Vec<_> = self.rules.values().flatten().map(String::as_str).collect();
        let table = format!(
            "add table inet faults\ndelete table inet faults\ntable inet faults {{\n\
             chain forward {{\ntype filter hook forward priority 0;\n{}\n}}\n}}\n",
            rules.join("\n")
        );
        let mut nft = Command::new("ip");
        nft.args(["netns", "exec", &self.router(), "nft", "-f", "-"]);
        let mut nft = nft
            .stdin(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        nft.stdin
            .take()
            .unwrap()
            .write_all(table.as_bytes())
            .unwrap();
        succeeded("nft", &nft.wait_with_output().unwrap());
    }

    /// Packets that vanished by the rules in force.
    pub(crate) fn dropped(&self) -> u64 {
        let list = ["nft", "list", "table", "inet", "faults"];
        let listed = ip(&[&["netns", "exec", &self.router()], &list[..]].concat());
        let counters = listed.split("packets ").skip(1);
        let packets = counters.filter_map(|text| text.split(' ').next()?.parse::<u64>().ok());
        packets.sum()
    }

    fn tc(&self, arguments: &[&str]) {
        let mut tc = Command::new("tc");
        tc.args(["-n", &self.router()]).args(arguments);
        succeeded("tc", &tc.output().unwrap());
    }
}

impl Drop for World {
    fn drop(&mut self) {
        for host in self.hosts.iter().copied().chain(["router"]) {
            let mut delete = Command::new("ip");
            delete.args(["netns", "delete", &self.namespace(host)]);
            // One that was never made is no loss.
            let _ = delete.output();
        }
    }
}

fn ip(arguments: &[&str]) -> String {
    let output = Command::new("ip").args(arguments).output().unwrap();
    succeeded(&format!("ip {}", arguments.join(" ")), &output);
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn succeeded(what: &str, output: &Output) {
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{what}: {}", said.trim());
}

/// What a world needs and this machine has not.
fn missing() -> Option<String> {
    let probe = format!("fbprobe{}", std::process::id());
    let tries: [(&str, &[&str]); 3] = [
        (
            "network namespaces (iproute2, and root's rights)",
            &["ip", "netns", "add", &probe],
        ),
        (
            "virtual Ethernet",
            &[
                "ip", "-n", &probe, "link", "add", "name", "one", "type", "veth", "peer", "name",
                "other",
            ],
        ),
        (
            "nftables",
            &[
                "ip", "netns", "exec", &probe, "nft", "add", "table", "inet", "probe",
            ],
        ),
    ];
    let missing = first_refused(&tries);
    run(&["ip", "netns", "delete", &probe]).ok();
    missing
}

/// Whether the kernel refuses a queueing discipline, with what it says.
pub(crate) fn no_discipline(name: &str) -> Option<String> {
    let probe = format!("fbqueue{}", std::process::id());
    run(&["ip", "netns", "add", &probe]).ok()?;
    let parameters: &[&str] = match name {
        "tbf" => &["rate", "1mbit", "burst", "4kb", "latency", "1s"],
        _ => &["delay", "1ms"],
    };
    let add = [
        "tc", "-n", &probe, "qdisc", "add", "dev", "lo", "root", name,
    ];
    let missing = run(&[&add[..], parameters].concat()).err();
    run(&["ip", "netns", "delete", &probe]).ok();
    missing.map(|said| format!("the kernel's queueing discipline {name} ({said})"))
}

fn first_refused(tries: &[(&str, &[&str])]) -> Option<String> {
    tries.iter().find_map(|(what, command)| {
        let said = run(command).err()?;
        Some(format!("{what} ({said})"))
    })
}

/// What the command complained about, when it failed.
fn run(command: &[&str]) -> Result<(), String> {
    let (program, arguments) = command.split_first().unwrap();
    match Command::new(program).args(arguments).output() {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
        Err(error) => Err(format!("{program}: {error}")),
    }
}
