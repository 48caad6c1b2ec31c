use super::*;

#[track_caller]
fn check(template: &str, host: Option<&str>, path: Option<&str>) {
    let (found_host, found_path) = host_and_path(&fill(template, "orders", "shop"));
    assert_eq!((found_host.as_deref(), found_path.as_deref()), (host, path), "{template}");
}

#[test]
fn templates_become_host_and_path() {
    check("{{name}}.{{namespace}}.flink.io", Some("orders.shop.flink.io"), None);
    check("{{NAME}}.x/", Some("orders.x"), Some("/"));
    check("/{{namespace}}/{{name}}(/|$)(.*)", None, Some("/shop/orders(/|$)(.*)"));
    check("HTTPS://u@a.b:8443/p?q=1#f", Some("a.b"), Some("/p"));
    check("a.b?x=/y", Some("a.b"), None);
    check("{{ name }}.{{name}}", Some("{{ name }}.orders"), None);
    check("{{name", Some("{{name"), None);
    check("", None, None);
}
