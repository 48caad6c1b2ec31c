//! Archives of images in the format of `docker save`: the files that describe the layers. The operator's own image also
//! uses it.

use serde_json::{Map, Value, json};

/// Settings of a container started from an image.
#[derive(Clone, Debug, Default)]
pub struct Start<'a> {
    pub entrypoint: &'a [&'a str],
    pub arguments: &'a [&'a str],
    pub environment: &'a [String],
    pub folder: &'a str,
    /// The user and group as `USER:GROUP`; `None` for root.
    pub user: Option<&'a str>,
    pub labels: &'a [(&'a str, &'a str)],
}

/// Returns the `config.json` of an image, as in the image specification. `digests` are those of its layers, the lowest
/// first.
pub fn configuration(start: &Start<'_>, digests: &[&str]) -> Value {
    let Start { entrypoint, arguments, environment, folder, user, labels } = start;
    let digests: Vec<String> = digests.iter().map(|digest| format!("sha256:{digest}")).collect();
    let mut config = json!({
        "Env": environment,
        "Entrypoint": entrypoint,
        "Cmd": arguments,
        "WorkingDir": folder,
    });
    if let Some(user) = user {
        config["User"] = json!(user);
    }
    if !labels.is_empty() {
        let labels = labels.iter().map(|(name, value)| ((*name).to_owned(), json!(value)));
        config["Labels"] = Value::Object(labels.collect::<Map<_, _>>());
    }
    json!({
        "architecture": architecture(),
        "os": "linux",
        "config": config,
        "rootfs": {"type": "layers", "diff_ids": digests},
    })
}

/// Returns the `manifest.json` of an archive with `config.json` and a file for each layer.
pub fn manifest(tag: &str, digests: &[&str]) -> Value {
    let files: Vec<String> = digests.iter().map(|digest| layer_file(digest)).collect();
    json!([{"Config": "config.json", "RepoTags": [tag], "Layers": files}])
}

/// Returns the name of a layer in an archive.
pub fn layer_file(digest: &str) -> String {
    format!("{digest}.tar")
}

/// Returns this machine's architecture as images name it.
pub fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

/// Returns lower-case hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    let digit = |half: u8| char::from_digit(half.into(), 16).unwrap_or_default();
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn manifest_names_layers_in_order() {
        assert_eq!(
            manifest("flink:1.20", &["aa", "bb"]),
            json!([{
                "Config": "config.json", "RepoTags": ["flink:1.20"], "Layers": ["aa.tar", "bb.tar"],
            }])
        );
    }

    #[test]
    fn configuration_lists_digests_of_layers_in_order() {
        let start = Start { entrypoint: &["/e"], arguments: &["help"], ..Start::default() };
        let configuration = configuration(&start, &["aa", "bb"]);
        assert_eq!(configuration["rootfs"]["diff_ids"], json!(["sha256:aa", "sha256:bb"]));
        assert_eq!(configuration["config"]["Entrypoint"], json!(["/e"]));
        assert_eq!(configuration["config"]["Cmd"], json!(["help"]));
        assert_eq!(configuration["config"].get("User"), None, "an image of its own says as whom");
    }

    #[test]
    fn each_byte_has_two_digits() {
        assert_eq!(hex(&[0, 0x9f, 0xff]), "009fff");
    }
}
