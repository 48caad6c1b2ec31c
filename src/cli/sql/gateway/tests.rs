use super::*;

#[test]
fn a_pod_is_named_by_its_cluster_and_lives_as_long_as_it_may() {
    let pod = json!({"metadata": {"labels": {}}, "spec": {}});
    let made = named(&pod, "lab", "0123456789abcdef", Duration::from_secs(7));
    assert_eq!(made["metadata"]["name"], "lab-sql-01234567");
    assert_eq!(made["metadata"]["labels"][SESSION_LABEL], "01234567");
    assert_eq!(made["spec"]["activeDeadlineSeconds"], 7);
    let longest = "a".repeat(45);
    let name = named(&pod, &longest, &"f".repeat(32), Duration::ZERO);
    assert!(name["metadata"]["name"].as_str().unwrap().len() <= 63);
    assert_eq!(name["spec"]["activeDeadlineSeconds"], 1, "Kubernetes takes no less");
}
