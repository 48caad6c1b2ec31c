use super::*;

const V1: &str = "\
24 22 0:22 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755
25 24 0:23 / /sys/fs/cgroup/cpu,cpuacct rw,nosuid - cgroup cgroup rw,cpu,cpuacct
26 24 0:24 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids
27 24 0:25 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,xattr,release_agent=/x,name=systemd
28 24 0:26 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw";

#[test]
fn v1_wins_over_the_empty_v2_alongside_it_which_is_cleared_too() {
    let Some(Hierarchies::V1(found)) = Hierarchies::parse(V1) else { panic!("not v1") };
    let controllers: Vec<_> = found.iter().map(|found| found.controllers.join("+")).collect();
    assert_eq!(controllers, ["cpu+cpuacct", "pids", "name=systemd", ""]);
}

#[test]
fn parts_stay_where_nothing_is_limited() {
    let groups = Hierarchies::parse(V1).unwrap();
    assert_eq!(
        groups.processes_file("kubectl-flink-dev").unwrap(),
        Path::new("/sys/fs/cgroup/pids/kubectl-flink-dev/parts/cgroup.procs")
    );
    assert_eq!(groups.roots("kubectl-flink-dev").len(), 4);
    assert!(groups.roots("kubectl-flink-dev")[3].ends_with("unified/kubectl-flink-dev"));
}

#[test]
fn v2_alone_is_one_hierarchy() {
    let text = "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate";
    let groups = Hierarchies::parse(text).unwrap();
    assert_eq!(groups, Hierarchies::V2("/sys/fs/cgroup".into()));
    assert_eq!(
        groups.processes_file("kubectl-flink-a").unwrap(),
        Path::new("/sys/fs/cgroup/kubectl-flink-a/parts/cgroup.procs")
    );
}

#[test]
fn machine_without_control_groups_has_none() {
    assert_eq!(Hierarchies::parse("22 1 0:21 / / rw - ext4 /dev/vda rw"), None);
}

#[test]
fn words_are_compared_whole() {
    assert!(has_word("cpuset cpu io\n", "cpu"));
    assert!(!has_word("cpuset io", "cpu"));
}
