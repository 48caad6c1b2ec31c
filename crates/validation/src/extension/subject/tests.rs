use serde_json::json;

use super::*;

#[test]
fn what_leaves_the_process_holds_no_secrets() {
    let object = json!({
        "metadata": {
            "name": "job",
            "managedFields": [{"manager": "me"}],
            "annotations": {LAST_APPLIED: "{\"s3.secret-key\": \"hidden-1\"}", "team": "a"}
        },
        "spec": {
            "flinkConfiguration": {
                "s3.secret-key": "hidden-2",
                "s3": {"access": {"key": "hidden-3"}, "endpoint": "http://s3"},
                "taskmanager.numberOfTaskSlots": 2,
                "fs": {"azure": {"account": {"key": {"me": "hidden-4"}}}}
            },
            "logConfiguration": {"log4j-console.properties": "a.password = hidden-5\na.level = INFO"},
            "podTemplate": {"spec": {
                "containers": [{"env": [
                    {"name": "DB_PASSWORD", "value": "hidden-6"},
                    {"name": "DB_PASS", "value": "hidden-12"},
                    {"name": "FLINK_PROPERTIES", "value": "s3.secret-key: hidden-13\nrest.port: 8081"},
                    {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}
                ]}],
                "volumes": [{"name": "v", "secret": {"secretName": "s"}}]
            }},
            "job": {
                "jarURI": "https://me:hidden-7@host/a.jar?sig=hidden-8",
                "args": ["--password", "hidden-9", "--token=hidden-10", "https://hidden-14@host", "--input", "file:///in"]
            }
        },
        "status": {"error": "hidden-11"}
    });
    let subject = Subject::new(Kind::FlinkDeployment, &object)
        .with_old_spec(Some(object["spec"].clone()))
        .with_session(Some(object.clone()));
    let request = subject.request();
    let text = request.to_string();
    assert!(!text.contains("hidden-"), "{text}");
    let spec = &request["object"]["spec"];
    assert_eq!(spec["flinkConfiguration"]["s3"]["endpoint"], "http://s3");
    assert_eq!(spec["flinkConfiguration"]["taskmanager.numberOfTaskSlots"], 2);
    assert_eq!(spec["podTemplate"]["spec"]["volumes"][0]["secret"]["secretName"], "s");
    assert_eq!(spec["job"]["args"][5], "file:///in");
    assert_eq!(spec["job"]["jarURI"], "https://******@host/a.jar?******");
    assert_eq!(request["object"]["metadata"]["annotations"], json!({"team": "a"}));
    assert_eq!(request["oldObject"]["spec"], *spec);
}
